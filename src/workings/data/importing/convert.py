"""Conversion of what a format read into a trace or a preference pair: ids, labels, metadata, annotations."""

import json
import math
from collections.abc import Mapping
from typing import Any

from workings.data.columns import IGNORED, TOOLS
from workings.data.importing.completion import take_annotations
from workings.data.importing.parts import Parts
from workings.data.preferences import PreferencePair, pair_from_json
from workings.data.row_fields import LABELS, kind_of
from workings.data.traces import Trace, trace_from_json
from workings.data.verdicts import Verdict, verdict_from_json

_OWN_KEYS = ("prompt", "steps", "answer", "chosen", "rejected", "history", "tool_turns", "tool_calls")


def converted(parts: Parts, metadata: dict[str, Any], fallback_id: str, given: Mapping[str, str], *, tools: str
              ) -> Trace | PreferencePair | Verdict:
    """The trace, the pair or the verdict of what a format found.

    Args:
        parts: what the format found.
        metadata: what else the record says (`metadata_of`); labels are taken out of it.
        fallback_id: the id where the record names none.
        given: labels where the record names none.
        tools: descriptions of the tools that the record has, as JSON.

    Raises:
        ValueError: with the reason why there is neither.
    """
    # `_label` takes what it finds out of the metadata, so that no field is kept twice.
    labels = {name: _label(metadata, name) or given.get(name, "") for name in LABELS}
    values = {**parts.values, "id": _label(metadata, "id") or fallback_id}
    if "steps" in values:
        _take_annotations(values, metadata)
    if parts.not_learned:
        metadata["turns_not_learned"] = [turn.to_json() for turn in parts.not_learned]
    values |= {"tools": json.loads(tools)} if tools else {}
    record = metadata | values | {name: text for name, text in labels.items() if text}
    # One rule for what a trace or a pair is: that of reading it back.
    if "completion" in values:
        return verdict_from_json(record)
    return pair_from_json(record) if "chosen" in values else trace_from_json(record)


def _take_annotations(own: dict[str, Any], metadata: dict[str, Any]) -> None:
    """Move calculator annotations from the steps to the metadata."""
    taken = [take_annotations(step) for step in own["steps"]]
    own["steps"] = [step for step, _ in taken]
    if any(annotations for _, annotations in taken):
        metadata["calculations"] = [annotations for _, annotations in taken]


def metadata_of(record: Mapping[str, Any], parts: Parts, ignored: Mapping[str, Any]) -> dict[str, Any]:
    """Keys that the format did not use, with its own findings; a null is left out, it says nothing.

    Args:
        record: under the format's keys.
        parts: what the format has read.
        ignored: columns that the person left out; they go to `workings.data.columns.IGNORED`.
    """
    others = {str(key): value for key, value in record.items() if key not in parts.used and key not in TOOLS}
    merged = {**parts.metadata, **others, **({IGNORED: dict(ignored)} if ignored else {})}
    if "license" in merged and "licence" not in merged:
        merged["licence"] = merged.pop("license")
    # a key that a trace or a pair gives another meaning (an `answer` next to the tagged text, say) is renamed
    return {f"original_{key}" if key in _OWN_KEYS else key: _plain(value)
            for key, value in merged.items() if value is not None}


def _label(metadata: dict[str, Any], name: str) -> str:
    """A label out of the metadata; numbers are common ids and levels, so whole ones are taken as text."""
    value = metadata.pop(name, "")
    # In Python true is an int, and it is not a label.
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise ValueError(f"`{name}` must be a text, not {kind_of(value)}")
    return str(value)


def _plain(value: Any) -> Any:
    """A value as JSON can say it: what parquet knows beyond JSON (dates, bytes, decimals) becomes text."""
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value if inner is not None]
    if isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return str(value)
