"""Tolerances: how far the same steps may differ under other conditions, by number format."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from workings.evidence.replay.conditions import platform


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """Largest relative differences that count as the same computation under other conditions."""

    loss: float
    grad_norm: float
    weights: float
    """Largest of any tensor: Euclidean norm of the difference over the tensor's norm."""
    completions: float
    """Smallest share of greedy completions that are the same text."""
    source: str

    def to_json(self) -> dict[str, Any]:
        """For the answer."""
        return asdict(self)


BITWISE = Tolerance(loss=0.0, grad_norm=0.0, weights=0.0, completions=1.0,
                    source="none: processor, threads and versions are the recorded ones")
_MEASURED = "python -m proof.replay"
TOLERANCES = {
    "float32": Tolerance(loss=1e-5, grad_norm=1e-5, weights=1e-5, completions=0.9, source=_MEASURED),
    "bfloat16": Tolerance(loss=7e-4, grad_norm=2e-3, weights=3e-3, completions=0.7, source=_MEASURED),
    "bfloat16 weights": Tolerance(loss=3e-3, grad_norm=2e-2, weights=3e-2, completions=0.6, source=_MEASURED),
}
"""Tolerances by number format: above the differences of correct replays of ten steps under other conditions, below
those of controls. Measured on CPUs, with models of 0.2 million parameters. There is none for other formats, or between
a CPU and an accelerator: a replay under such conditions is refused."""


def number_format(dtypes: Mapping[str, str]) -> str:
    """Key of `TOLERANCES` for number formats: that of the computation, and whether the weights are as coarse.

    Args:
        dtypes: `actual_dtypes` of a manifest.
    """
    stored, computed = (_LONG_NAMES.get(dtypes.get(key, ""), dtypes.get(key, "")) for key in ("parameters", "compute"))
    # Weights stored in bf16 are rounded at every update, which adds to the rounding of the arithmetic.
    return f"{computed} weights" if stored == computed == "bfloat16" else computed


def tolerance_for(dtypes: Mapping[str, str], recorded: Mapping[str, str],
                  current: Mapping[str, str]) -> Tolerance | None:
    """The tolerance for a run's number formats between two conditions; None if not measured."""
    return TOLERANCES.get(number_format(dtypes)) if platform(recorded) == platform(current) else None


MEASURED_STEPS = 10
"""Steps over which the tolerances were measured: differences grow from step to step."""
_LONG_NAMES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
