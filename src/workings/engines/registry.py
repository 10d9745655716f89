"""Engines by name, found among the entry points of group ``workings.engines``.

Ours are registered in `pyproject.toml` in the same way as another package would register its own.
"""

from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points

from workings.engines.base import Engine
from workings.errors import RequestError

GROUP = "workings.engines"


@dataclass(frozen=True)
class RegisteredEngine:
    """An engine class and the installed distribution that brings it."""

    engine: type[Engine]
    distribution: str
    version: str


def engine_names() -> list[str]:
    """Names of all registered engines; nothing is imported."""
    return sorted({point.name for point in entry_points(group=GROUP)})


def install_hint(name: str) -> str:
    """What brings the libraries of one of our engines."""
    return f"pip install 'workings[{name}]' from the place this package came from"


def find_engine(name: str) -> RegisteredEngine:
    """Import the engine registered under a name.

    Raises:
        RequestError: no such engine, two packages claim the name, or its libraries are not installed.
    """
    points = [point for point in entry_points(group=GROUP) if point.name == name]
    if not points:
        raise RequestError(f"engine: {name}", "a registered engine: " + ", ".join(engine_names()),
                           "set `engine:` to one of them, or install the package that brings it")
    if len({point.value for point in points}) > 1:
        raise RequestError(f"engine: {name}", "one package to register it; these do: " + ", ".join(
            _distribution(point)[0] for point in points), "uninstall all but one")
    point = points[0]
    try:
        engine = point.load()
    except ModuleNotFoundError as error:
        raise RequestError(f"engine: {name}", f"its libraries to be installed; {error.name!r} is not",
                           install_hint(name)) from error
    return RegisteredEngine(engine, *_distribution(point))


def _distribution(point: EntryPoint) -> tuple[str, str]:
    if point.dist is None:
        raise RequestError(f"engine: {point.name}", "an engine that belongs to an installed package")
    return point.dist.name, point.dist.version
