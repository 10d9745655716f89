"""Preference pairs: two completions of one prompt, of which one is the better. One JSON object a line, UTF-8.

Files of other shapes become pairs through `workings.data.importing`; everything else sees pairs only. The two
completions are texts as a model writes them, in whatever form they have: a pair says which is better, not how it
reasons.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workings.data.traces import LABELS, history_of, kind_of, refuse_half_surrogates, text_of
from workings.errors import RecordError, RequestError
from workings.hints import no_file
from workings.record import atomic, canonical


@dataclass(frozen=True, kw_only=True)
class PreferencePair:
    """One prompt with a better and a worse completion."""

    id: str
    """Unique in its file; decides the pair's place in an epoch."""
    prompt: str
    """The question, without any chat turn around it."""
    chosen: str
    """The better completion, without any chat turn around it."""
    rejected: str
    """The worse one."""
    history: tuple[tuple[str, str], ...] = ()
    """Earlier turns of a conversation as (role, text), as in `workings.data.traces.Trace`."""
    section: str = ""
    """Part of the data set."""
    category: str = ""
    """Kind of problem."""
    difficulty: str = ""
    """How hard it is."""
    source: str = ""
    """Where it comes from."""
    licence: str = ""
    """Licence of the source, as an SPDX id where there is one."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Whatever else the source said; kept, never interpreted."""

    def to_json(self) -> dict[str, Any]:
        """The pair as one flat JSON object; metadata stands beside the known keys, empty labels are left out."""
        record: dict[str, Any] = {"id": self.id, "prompt": self.prompt, "chosen": self.chosen,
                                  "rejected": self.rejected}
        if self.history:
            record["history"] = [{"role": role, "content": text} for role, text in self.history]
        record |= {name: getattr(self, name) for name in LABELS if getattr(self, name)}
        return record | {key: value for key, value in self.metadata.items() if key not in record}


_KNOWN = {"id", "prompt", "chosen", "rejected", "history", *LABELS}


def pair_from_json(record: object, *, escapes: bool = True) -> PreferencePair:
    """The pair that a parsed line holds.

    Args:
        record: the line's JSON value.
        escapes: whether the line may have held escaped characters, which alone can be half a surrogate pair.

    Raises:
        ValueError: with a reason that fits behind `file:line:`, when a field is missing or has the wrong type.
    """
    if not isinstance(record, dict):
        raise ValueError(f"a JSON object was expected, not {kind_of(record)}")
    if escapes:
        refuse_half_surrogates(record)
    return PreferencePair(
        **{name: text_of(record, name) for name in ("id", "prompt", "chosen", "rejected")},
        history=history_of(record.get("history", [])),
        **{name: text_of(record, name) if name in record else "" for name in LABELS},
        # Whatever else a line holds is kept, as with traces.
        metadata={key: value for key, value in record.items() if key not in _KNOWN})


def iterate_pairs(path: Path) -> Iterator[PreferencePair]:
    """The pairs of a file, one after the other, in constant memory but for the set of ids.

    Raises:
        RequestError: naming file and line, when the file is absent or a line is not a pair or repeats an id.
    """
    if not path.is_file():
        raise RequestError(f"preference pairs: {no_file(path)}", "a file of pairs, one JSON object a line",
                           "workings data import --format preferences FILE --out pairs.jsonl")
    seen: set[str] = set()
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                # UTF-8 cannot hold half a surrogate pair, so lines without an escape are spared the check.
                pair = pair_from_json(canonical.loads(line), escapes=b"\\u" in line)
            except (ValueError, RecordError) as error:
                raise _bad_line(path, number, str(error)) from None
            if pair.id in seen:
                raise _bad_line(path, number, f"id {pair.id!r} stands in an earlier line already")
            seen.add(pair.id)
            yield pair


def read_pairs(path: Path) -> list[PreferencePair]:
    """All pairs of a file; see `iterate_pairs`. An empty file is an error.

    Raises:
        RequestError: as `iterate_pairs`, or when there is no pair at all.
    """
    pairs = list(iterate_pairs(path))
    if not pairs:
        raise RequestError(f"preference pairs: {path} is empty", "at least one pair")
    return pairs


def pairs_bytes(pairs: Iterable[PreferencePair]) -> bytes:
    """The pairs as JSON lines, keys in a fixed order, so that equal pairs give equal bytes."""
    return b"".join(json.dumps(pair.to_json(), ensure_ascii=False).encode() + b"\n" for pair in pairs)


def write_pairs(path: Path, pairs: Iterable[PreferencePair]) -> None:
    """Write pairs as JSON lines, atomically."""
    atomic.write_bytes(path, pairs_bytes(pairs))


def _bad_line(path: Path, number: int, reason: str) -> RequestError:
    return RequestError(f"{path}:{number}: {reason}", "one pair a line: id, prompt, chosen, rejected",
                        f"workings data import --format preferences {path} --out pairs.jsonl --on-error skip")
