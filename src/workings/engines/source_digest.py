"""Versions of libraries and the digest of our own source: what a kept compilation or trace depends on."""

import hashlib
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from importlib.resources.abc import Traversable


def source_digest(*packages: str) -> str:
    """SHA-256 of the sources of packages, folders below them included: a changed step is another program."""
    digest = hashlib.sha256()
    for package in packages:
        _add(digest, files(package))
    return digest.hexdigest()


def _add(digest: "hashlib._Hash", folder: Traversable) -> None:
    # File systems list a folder in any order.
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            _add(digest, entry)
        elif entry.name.endswith((".py", ".json")):
            # The zero byte keeps a name apart from the content behind it.
            digest.update(entry.name.encode() + b"\0" + entry.read_bytes())


def library_versions(distributions: Iterable[str]) -> dict[str, str]:
    """Versions of installed distributions; ``not installed`` for those that are not."""
    return {name: _version(name) for name in distributions}


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
