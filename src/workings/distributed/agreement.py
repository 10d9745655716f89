"""What several processes of one run must have alike, and the first difference in words."""

from collections.abc import Iterator, Mapping
from typing import Any

from workings.engines.base import Engine
from workings.errors import RequestError

MAX_SHOWN = 4
"""Differences that are shown."""


def facts_of(engine: Engine) -> dict[str, Any]:
    """Facts about an engine that must be equal in every process."""
    device = engine.describe()
    return {"platform": device.platform, "mesh": dict(device.mesh), "versions": dict(device.versions),
            "dtypes": dict(engine.dtypes())}


def difference(here: Mapping[str, Any], there: Mapping[str, Any], index: int) -> RequestError | None:
    """The error for process ``index`` that prepared another run than process 0; None if both are equal."""
    found = [f"process {index} with {key}: {other}; process 0 has {own}"
             for key, own, other in _differing(here, there, "")]
    if not found:
        return None
    return RequestError("; ".join([*found[:MAX_SHOWN], *([f"and {len(found) - MAX_SHOWN} more"]
                                                         if len(found) > MAX_SHOWN else [])]),
                        "the same recipe, data, weights and versions in all processes",
                        "the same command on every machine, with the same files")


def _differing(here: Any, there: Any, prefix: str) -> Iterator[tuple[str, Any, Any]]:
    """Dotted keys with both values, down to the innermost mapping, such as ``recipe.training.learning_rate``."""
    if isinstance(here, Mapping) and isinstance(there, Mapping):
        for key in sorted(here.keys() | there.keys()):
            yield from _differing(here.get(key, "(absent)"), there.get(key, "(absent)"),
                                  f"{prefix}.{key}" if prefix else key)
    elif here != there:
        yield prefix, here, there
