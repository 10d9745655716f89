"""Versions of libraries, and a digest of our own source. Cached compilations and traces depend on both."""

import hashlib
from collections.abc import Iterable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from importlib.resources.abc import Traversable


@cache
def source_digest(*packages: str, modules_of: str = "") -> str:
    """SHA-256 of the code of ``packages`` with subpackages, and of the package ``modules_of`` without subpackages."""
    digest = hashlib.sha256()
    for package in packages:
        _add(digest, files(package))
    if modules_of:
        _add(digest, files(modules_of), below=False)
    return digest.hexdigest()


def _add(digest: "hashlib._Hash", folder: Traversable, *, below: bool = True) -> None:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir() and below:
            _add(digest, entry)
        elif entry.name.endswith((".py", ".json")):
            digest.update(entry.name.encode() + b"\0" + entry.read_bytes())


def library_versions(distributions: Iterable[str]) -> dict[str, str]:
    """Versions of distributions; ``not installed`` for those that are not installed."""
    def version_of(name: str) -> str:
        try:
            return version(name)
        except PackageNotFoundError:
            return "not installed"

    return {name: version_of(name) for name in distributions}
