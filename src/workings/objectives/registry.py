"""Finds objectives by name: those of this package, and those that other packages register by an entry point."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from workings.errors import RequestError
from workings.objectives.base import CrossEntropy, Objective
from workings.objectives.kto import Kto
from workings.objectives.policy_gradient import PolicyGradient
from workings.objectives.preference import Orpo, Preference, SimPo
from workings.objectives.top_tokens import TopTokens
from workings.plugins import find_plugin, plugin_names, refuse_our_names

GROUP = "workings.objectives"
"""Entry points of other packages: an objective's name -> its class."""
OBJECTIVES: Mapping[str, type[Objective]] = {objective.name: objective for objective in (
    CrossEntropy, Kto, Orpo, PolicyGradient, Preference, SimPo, TopTokens)}


def find_objective(name: str) -> type[Objective]:
    """The class of an objective. Raises `RequestError` if it is missing or ambiguous, or its class has another name."""
    if name in OBJECTIVES:
        # Another package must not change the meaning of recorded recipes.
        refuse_our_names(GROUP, [name], kind="objective")
        return OBJECTIVES[name]
    given = f"objective {name!r}"
    point = find_plugin(GROUP, name, given=given)
    if point is None:
        others = [each for each in plugin_names(GROUP) if each not in OBJECTIVES]
        raise RequestError(f"{given} is unknown", f"one of {', '.join([*OBJECTIVES, *others])}",
                           "install the package that brings it")
    objective = point.load()
    if not isinstance(objective, type) or getattr(objective, "name", None) != name:
        raise RequestError(f"{point.value} does not bring {given}",
                           f"a class with the methods of `workings.objectives.base.Objective`, whose name is {name!r}")
    return objective


def to_json(objective: Objective) -> dict[str, Any]:
    """Name and settings, for a child process and for digests."""
    return {"name": objective.name} | asdict(objective)  # type: ignore[call-overload]


def from_json(values: Mapping[str, Any]) -> Objective:
    """The objective that `to_json` wrote. Raises `RequestError` as `find_objective`."""
    return find_objective(str(values["name"]))(**{key: value for key, value in values.items() if key != "name"})
