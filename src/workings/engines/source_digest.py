"""Versions of libraries and the digest of our own source: what a kept compilation or trace depends on."""

import ast
import hashlib
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from importlib.resources.abc import Traversable


@cache
def source_digest(*packages: str, modules_of: str = "") -> str:
    """SHA-256 of the code of packages, folders below them included; of ``modules_of`` without the folders below it.

    Comments, docstrings and blank space are left out: they change no program.
    """
    digest = hashlib.sha256()
    for package in packages:
        _add(digest, files(package))
    if modules_of:
        _add(digest, files(modules_of), below=False)
    return digest.hexdigest()


def _add(digest: "hashlib._Hash", folder: Traversable, *, below: bool = True) -> None:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            if below:
                _add(digest, entry)
        elif entry.name.endswith((".py", ".json")):
            content = entry.read_bytes()
            if entry.name.endswith(".py"):
                content = " ".join(syntax_words(ast.parse(content))).encode()
            # The zero byte keeps a name apart from the content after it.
            digest.update(entry.name.encode() + b"\0" + content)


def syntax_words(node: ast.AST) -> Iterator[str]:
    """The syntax tree as words, without strings that are statements (docstrings).

    `ast.dump` is not used, because it writes empty fields, and their number grows with Python's version.
    """
    yield type(node).__name__
    for name, value in ast.iter_fields(node):
        values = value if isinstance(value, list) else [value]
        statements = [value for value in values if not _is_docstring(value)]
        if statements and value is not None:
            # The length, so that two neighbouring lists never read like one.
            yield f"{name}:{len(statements)}"
            for value in statements:
                if isinstance(value, ast.AST):
                    yield from syntax_words(value)
                else:
                    yield repr(value)


def _is_docstring(value: object) -> bool:
    return (isinstance(value, ast.Expr) and isinstance(value.value, ast.Constant)
            and isinstance(value.value.value, str))


def library_versions(distributions: Iterable[str]) -> dict[str, str]:
    """Versions of installed distributions; ``not installed`` for those that are not."""
    def version_of(name: str) -> str:
        try:
            return version(name)
        except PackageNotFoundError:
            return "not installed"

    return {name: version_of(name) for name in distributions}
