"""What a format finds in a record."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

from workings.models.turns import Turn

Record = Mapping[str, Any]
Keys = AbstractSet[str]


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Values of a trace, of a preference pair, or of half of a pair."""

    values: dict[str, Any]
    """Keys of the line of a trace or a pair, without id and labels; of half a pair `prompt`, `completion` and turns."""
    used: frozenset[str]
    """Keys of the record that are in the values; the others become metadata."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Metadata that the format itself found."""
    is_right: bool | None = None
    """Of half a pair, whether its completion is the better one."""
    not_learned: Sequence[Turn] = ()
    """Turns behind the last one that may be learned."""
    reasoning_left_out: int = 0
    """Earlier turns with reasoning in a separate field, which a history does not keep."""
