"""A format's findings in a record."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

from workings.models.turns import Turn

Record = Mapping[str, Any]
Keys = AbstractSet[str]


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Values of a trace, of a preference pair, or of a verdict."""

    values: dict[str, Any]
    """Keys of the line of a trace, a pair or a verdict, without id and labels."""
    used: frozenset[str]
    """Keys of the record that are in the values; the others become metadata."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Metadata that the format itself found."""
    not_learned: Sequence[Turn] = ()
    """Turns after the last learnable one."""
    reasoning_left_out: int = 0
    """Earlier turns with reasoning in a separate field, which a history does not keep."""
