"""Which of our engines `engine: auto` means: the only one that can do what is asked, else the faster one as measured.

The measurements are those of `benchmarks/results/peers.json`, copied by `python -m tools.engine_speeds`. They were
taken on a CPU, so nothing is chosen by them anywhere else.
"""

import json
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from workings.engines.registry import install_hint
from workings.errors import RequestError

JAX, TORCH = "jax", "torch"
LIBRARIES = {JAX: ("jax",), TORCH: ("torch", "transformers")}
"""What must be installed for an engine to run."""
SAY = "engine=jax or engine=torch"


@dataclass(frozen=True, kw_only=True)
class Choice:
    """An engine and why."""

    engine: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Both engines on one model and one kind of rows, float32, side by side."""

    case: str
    parameters: int
    tokens_per_second: Mapping[str, float]
    """Supervised tokens a second by engine."""


@cache
def measurements() -> tuple[Measured, ...]:
    """What was measured on a CPU."""
    text = (resources.files("workings.engines") / "cpu_speed.json").read_text("utf-8")
    return tuple(Measured(**row) for row in json.loads(text)["rows"])


def choose(*, platform: str, parameters: int, only: Mapping[str, str], installed: Collection[str]) -> Choice:
    """The engine for a platform.

    Args:
        platform: ``cpu``, ``gpu`` or ``tpu``.
        parameters: of the model; on a CPU the measurement nearest to it in size decides.
        only: engine -> what is asked for that no other engine does; empty where both can.
        installed: engines whose libraries are there.

    Raises:
        RequestError: no engine does all that is asked, the one that does is not installed, or both are installed and
            nothing was measured on such a device.
    """
    needs = dict(only) | ({JAX: "a TPU"} if platform == "tpu" else {})
    if len(needs) > 1:
        raise RequestError("engine: auto with " + " and ".join(needs.values()), "what one engine does: "
                           + "; ".join(f"{what}: {engine}" for engine, what in needs.items()), SAY)
    for engine, what in needs.items():
        if engine not in installed:
            raise RequestError(f"engine: auto with {what}", f"engine {engine}, whose libraries are not installed",
                               install_hint(engine))
        return Choice(engine=engine, reason=f"the engine for {what}")
    if len(installed) == 1:
        engine = next(iter(installed))
        return Choice(engine=engine, reason="the only one of jax and torch that is installed")
    if not installed:
        raise RequestError("engine: auto", "jax or torch to be installed; neither is", install_hint(JAX))
    if platform != "cpu":
        raise RequestError(f"engine: auto on a {platform.upper()}", "the name of an engine: both are installed, and "
                           "which one is faster there was not measured", SAY)
    return _faster(parameters)


def _faster(parameters: int) -> Choice:
    """The faster one on the measured model that is nearest in size; of several kinds of rows, by all of them."""
    nearest = min(measurements(), key=lambda row: abs(math.log(row.parameters / max(parameters, 1))))
    rows = [row for row in measurements() if 0.5 <= row.parameters / nearest.parameters <= 2]
    ratio = math.exp(sum(math.log(row.tokens_per_second[TORCH] / row.tokens_per_second[JAX]) for row in rows)
                     / len(rows))
    engine, times = (TORCH, ratio) if ratio >= 1 else (JAX, 1 / ratio)
    sizes = " and ".join(f"{row.parameters / 1e6:.2g} million ({row.case})" for row in rows)
    return Choice(engine=engine, reason=f"measured {times:.2f} times as fast as the other one on a CPU with {sizes} "
                                        f"parameters; this model has {parameters / 1e6:.3g} million")
