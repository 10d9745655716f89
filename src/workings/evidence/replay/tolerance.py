"""How far the same steps may lie apart under other conditions, by number format."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """Largest relative differences that count as the same computation under other conditions."""

    loss: float
    grad_norm: float
    weights: float
    """Of any one tensor: Euclidean norm of the difference over the tensor's norm."""
    completions: float
    """Smallest share of greedy completions that are the same text."""
    source: str

    def to_json(self) -> dict[str, Any]:
        """For the record."""
        return asdict(self)


BITWISE = Tolerance(loss=0.0, grad_norm=0.0, weights=0.0, completions=1.0,
                    source="none: processor, threads and versions are the recorded ones")
TOLERANCES = {
    "float32": Tolerance(loss=1e-5, grad_norm=1e-4, weights=1e-4, completions=0.9,
                         source="set by hand; `python -m proof.replay` measures how far right replays lie apart"),
}
"""By the number format in which steps compute. A format that is not here has none, and a replay under other
conditions is refused for it."""


def tolerance_for(compute: str) -> Tolerance | None:
    """The tolerance for a number format; None where none was measured."""
    return TOLERANCES.get({"fp32": "float32", "bf16": "bfloat16"}.get(compute, compute))
