"""Objectives by name: those of this package, a file each next to this one, and those of other packages.

The file ``NAME.py`` holds the objective of that name as its ``OBJECTIVE``. Another package names its class by an entry
point.
"""

from collections.abc import Mapping
from dataclasses import asdict
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from workings import objectives
from workings.errors import RequestError
from workings.objectives.base import Objective
from workings.plugins import find_plugin, plugin_names, refuse_our_names

GROUP = "workings.objectives"
"""Entry points of other packages: an objective's name -> its class."""


def our_objectives() -> list[str]:
    """Names of the objectives of this package, in order; nothing is imported."""
    return sorted({module.name for module in iter_modules(objectives.__path__)} - {"base", "registry"})


def find_objective(name: str) -> type[Objective]:
    """The class of the objective of this name.

    Raises:
        RequestError: none exists, two packages bring it, or what is brought is not an objective of this name.
    """
    given, ours = f"objective {name!r}", our_objectives()
    if name in ours:
        # A package that brings one of these names would change what recorded recipes mean.
        refuse_our_names(GROUP, [name], kind="objective")
        place = f"{objectives.__name__}.{name}"
        objective = getattr(import_module(place), "OBJECTIVE", None)
    elif (point := find_plugin(GROUP, name, given=given)) is not None:
        place, objective = point.value, point.load()
    else:
        others = [each for each in plugin_names(GROUP) if each not in ours]
        raise RequestError(f"{given} is unknown", f"one of {', '.join(ours + others)}",
                           "install the package that brings it")
    if not isinstance(objective, type) or getattr(objective, "name", None) != name:
        raise RequestError(f"{place} does not bring {given}",
                           f"a class with the methods of `workings.objectives.base.Objective`, whose name is {name!r}")
    return objective


def to_json(objective: Objective) -> dict[str, Any]:
    """Name and settings, for a child process and for digests."""
    return {"name": objective.name} | asdict(objective)  # type: ignore[call-overload]


def from_json(values: Mapping[str, Any]) -> Objective:
    """The objective that `to_json` wrote.

    Raises:
        RequestError: as `find_objective`.
    """
    return find_objective(str(values["name"]))(**{key: value for key, value in values.items() if key != "name"})
