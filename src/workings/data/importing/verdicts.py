"""Single completions with a verdict (KTO): a right and a wrong one of the same prompt make a pair."""

import json
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from workings.data.importing.parts import Parts
from workings.data.importing.records import SourceRecord


@dataclass(frozen=True)
class Half:
    """A verdict with the record that it came from."""

    record: SourceRecord
    parts: Parts
    metadata: dict[str, Any]
    tools: str


class Waiting:
    """Completions that wait for one with the other verdict. At worst it holds every record of a source."""

    def __init__(self) -> None:
        self._halves: dict[tuple[object, ...], deque[Half]] = {}

    def partner(self, half: Half) -> Half | None:
        """The completion that came first of those of its prompt with the other verdict; without one, this one waits.

        Each completion is in one pair at most.
        """
        asked = {key: value for key, value in half.parts.values.items() if key != "completion"}
        question = json.dumps(asked), half.tools
        # Of the two queues of a prompt one is always empty, so a record costs one look however many wait.
        waiting = self._halves.get((*question, not half.parts.is_right))
        if waiting:
            return waiting.popleft()
        self._halves.setdefault((*question, half.parts.is_right), deque()).append(half)
        return None

    def left(self) -> Iterator[Half]:
        """Halves without a partner, in the order of the records."""
        yield from sorted((half for halves in self._halves.values() for half in halves),
                          key=lambda half: half.record.number)


def joined(one: Half, other: Half) -> Half:
    """The pair of two completions of one prompt, with the record of the right one.

    What else the wrong one's record said is in the metadata, in `of_rejected`.
    """
    right, wrong = (one, other) if one.parts.is_right else (other, one)
    values = {**right.parts.values, "rejected": wrong.parts.values["completion"]}
    values["chosen"] = values.pop("completion")
    return replace(right, parts=replace(right.parts, values=values),
                   metadata=right.metadata | ({"of_rejected": wrong.metadata} if wrong.metadata else {}))
