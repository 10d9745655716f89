"""Makes a trace, a pair or a verdict of what a format found in a record (`Parts`)."""

import json
import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

from workings.data.columns import IGNORED, TOOLS
from workings.data.importing.completion import take_annotations
from workings.data.importing.fields import tools_of
from workings.data.preferences import PreferencePair, Verdict, pair_from_json, verdict_from_json
from workings.data.row_fields import LABELS, kind_of, refuse_broken_text
from workings.data.traces import Trace, trace_from_json
from workings.models.turns import Turn

Record = Mapping[str, Any]
Keys = AbstractSet[str]
_OWN_KEYS = ("prompt", "steps", "answer", "chosen", "rejected", "history", "tool_turns", "tool_calls")


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What a format found in a record."""

    values: dict[str, Any]
    """Keys of the line of a trace, a pair or a verdict, without id and labels."""
    used: Keys
    """Keys of the record that are in the values; the others become metadata."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Metadata that the format itself found."""
    not_learned: Sequence[Turn] = ()
    """Turns after the last learnable one."""
    reasoning_left_out: int = 0
    """Earlier turns with reasoning in a separate field, which a history does not keep."""


def converted(record: Record, parts: Parts, ignored: Mapping[str, Any], fallback_id: str,
              fallback_labels: Mapping[str, str]) -> Trace | PreferencePair | Verdict:
    """The trace, pair or verdict of a record, which has the format's keys. Raises `ValueError` if it gives none.

    Columns that the user ``ignored`` are kept under the key `ignored`. A record without an id or a label gets the
    ``fallback_id`` and the one of the ``fallback_labels``.
    """
    metadata = _metadata(record, parts, ignored)
    labels = {name: _take_label(metadata, name) or fallback_labels.get(name, "") for name in LABELS}
    values = {**parts.values, "id": _take_label(metadata, "id") or fallback_id}
    if "steps" in values:
        taken = [take_annotations(step) for step in values["steps"]]
        values["steps"] = [step for step, _ in taken]
        if any(annotations for _, annotations in taken):
            metadata["calculations"] = [annotations for _, annotations in taken]
    if parts.not_learned:
        metadata["turns_not_learned"] = [turn.to_json() for turn in parts.not_learned]
    if tools := tools_of(record):
        values["tools"] = json.loads(tools)
    entry = metadata | values | {name: text for name, text in labels.items() if text}
    refuse_broken_text(entry)
    if "completion" in values:
        return verdict_from_json(entry)
    return pair_from_json(entry) if "chosen" in values else trace_from_json(entry)


def _metadata(record: Record, parts: Parts, ignored: Mapping[str, Any]) -> dict[str, Any]:
    """What the record has besides the format's values, without nulls."""
    others = {str(key): value for key, value in record.items() if key not in parts.used and key not in TOOLS}
    merged = {**parts.metadata, **others, **({IGNORED: dict(ignored)} if ignored else {})}
    if "license" in merged and "licence" not in merged:
        merged["licence"] = merged.pop("license")
    # A key that means something else in a trace or a pair is renamed, such as an `answer` next to a tagged text.
    return {f"original_{key}" if key in _OWN_KEYS else key: _plain(value)
            for key, value in merged.items() if value is not None}


def _take_label(metadata: dict[str, Any], name: str) -> str:
    """Take a label out of the metadata: a text, or a whole number as text. Empty without one."""
    value = metadata.pop(name, "")
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise ValueError(f"`{name}` must be a text, not {kind_of(value)}")
    return str(value)


def _plain(value: Any) -> Any:
    """A value for JSON: dates, bytes and decimals, which parquet has, become text."""
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value if inner is not None]
    if isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return str(value)
