"""Finds engines by name among the entry points of group ``workings.engines``.

Our own engines are registered like those of any other package, in `pyproject.toml`:

    [project.entry-points."workings.engines"]
    jax = "workings.engines.jax.engine:JaxEngine"
"""

from dataclasses import dataclass
from difflib import get_close_matches

from workings.config.recipe import DEFAULT_ENGINE
from workings.engines.base import EngineClass, PlanningEngine
from workings.engines.import_warnings import without_noise
from workings.errors import RequestError
from workings.hints import pip_install
from workings.plugins import find_plugin, plugin_names

GROUP = "workings.engines"
PLANNING_GROUP = "workings.planning_engines"
"""Entry points of planning engines; their modules load no framework."""


@dataclass(frozen=True)
class RegisteredEngine:
    """An engine class, and the installed distribution that contains it."""

    engine: EngineClass
    distribution: str
    version: str


def engine_names() -> list[str]:
    """Names of all registered engines."""
    return plugin_names(GROUP)


def find_engine(name: str) -> RegisteredEngine:
    """Import the engine with this name. Raises `RequestError` if it is missing, ambiguous, or lacks a library."""
    point = find_plugin(GROUP, name, given=f"engine: {name}", task="register")
    if point is None:
        near = get_close_matches(name, engine_names(), n=1)
        raise RequestError(f"engine: {name} is unknown", "a registered engine: " + ", ".join(engine_names()),
                           f"did you mean {near[0]}?" if near else
                           "set `engine:` to one of them, or install the package that brings it")
    try:
        with without_noise():
            engine = point.load()
    except ModuleNotFoundError as error:
        raise RequestError(f"engine: {name} needs {error.name}", "an engine with its libraries",
                           pip_install(name)) from error
    assert point.dist is not None  # only the type allows it
    return RegisteredEngine(engine, point.dist.name, point.dist.version)


def planning_engines() -> dict[str, PlanningEngine]:
    """Planning engines by the engine's name; the default engine comes first."""
    names = sorted(plugin_names(PLANNING_GROUP), key=lambda name: name != DEFAULT_ENGINE)
    return {name: engine for name in names if (engine := find_planning_engine(name)) is not None}


def engine_libraries(name: str) -> tuple[str, ...]:
    """Modules that an engine declares as needed; none of them is imported."""
    engine = find_planning_engine(name)
    return () if engine is None else engine.libraries


def find_planning_engine(name: str) -> PlanningEngine | None:
    """The planning engine of an engine; None if it has none. Raises `RequestError` for two, or for a missing method."""
    point = find_plugin(PLANNING_GROUP, name, given=f"engine: {name}", task="plan for")
    if point is None:
        return None
    engine = point.load()
    if not isinstance(engine, PlanningEngine):
        raise RequestError(f"{point.value} cannot plan for engine: {name}",
                           "a class with the methods of `workings.engines.base.PlanningEngine`")
    return engine
