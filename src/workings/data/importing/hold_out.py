"""`--hold-out N`: splits evaluation questions off an import and leaves similar ones out of the traces.

Labels and seed decide which ones: the traces that can be asked are put in the order of their labels and numbers of
steps, in the order of a digest within each of these groups, and every k-th is taken. So the first label keeps its
share to within one item and the others nearly, and the same records with the same seed give the same items.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from workings.data.checking.findings import earlier_texts
from workings.data.checking.overlap import (
    SIMILARITY,
    Question,
    find_leaks,
    least_similarity,
    numbers,
    passages,
    question_key,
    words,
)
from workings.data.importing.completion import final_answer
from workings.data.row_fields import LABELS, lines_bytes, path_beside
from workings.data.traces import Trace, iterate_traces
from workings.errors import RequestError
from workings.record import atomic
from workings.record.digest import file_digest

STRATA = ("section", "category", "difficulty", "kind", "type", "subject", "level", "length")
"""Fields to stratify by, if they have 2 to 50 values."""
_MAX_VALUES = 50
SAME_NUMBERS_SIMILARITY = 0.5
"""Shared three-word passages from which a question with the same numbers counts as a held-out one. No higher than
what `data check` reports: a trace too few costs little, a question that was learned by heart costs the evaluation."""
_AT_A_TIME = 10_000


@dataclass(frozen=True, kw_only=True)
class HeldOut:
    """The held-out questions."""

    items: int
    path: Path
    sha256: str
    seed: int
    left_out: int
    """Traces that repeat a held-out question or are like it."""
    left_out_path: Path | None

    def to_json(self) -> dict[str, Any]:
        """Keys of `--json`."""
        return {name: str(value) if isinstance(value, Path) else value
                for name, value in vars(self).items() if value is not None}

    def text(self) -> list[str]:
        """Lines for the terminal."""
        lines = [f"{self.items} held out as evaluation items in {self.path} (seed {self.seed})"]
        if self.left_out:
            lines.append(f"{self.left_out} traces that repeat a held-out question or are like it are left out (see "
                         f"{self.left_out_path})")
        return lines


def item_path(out: Path) -> Path:
    """The file of the held-out items."""
    return path_beside(out, "items.jsonl")


def left_out_path(out: Path) -> Path:
    """The file of the traces that are like a held-out item."""
    return path_beside(out, "left_out.jsonl")


def split(read: Path, out: Path, n: int, seed: int) -> HeldOut:
    """Split the traces of one file into items and the traces of another.

    Reads the file three times, so that memory holds two digests and the labels of each trace, and the held-out
    questions.

    Raises:
        RequestError: fewer questions than requested, or no trace would be left.
    """
    candidates = _Candidates(iterate_traces(read))
    held_indices = candidates.choose(n, seed)
    items = [_item(trace) for at, trace in enumerate(iterate_traces(read)) if at in held_indices]
    questions = [Question(item["id"], item["prompt"]) for item in items]
    like = dict(_like(iterate_traces(read), questions, held_indices))
    if len(held_indices) + len(like) == candidates.traces:
        raise RequestError(f"--hold-out {n} leaves none of {candidates.traces} traces: all others resemble it",
                           "a hold-out that leaves traces to learn from", f"--hold-out {max(1, n // 10)}")
    left_out = left_out_path(out)
    # The traces last, because a file of traces without its items would look complete.
    atomic.write_bytes(item_path(out), lines_bytes(items))
    if like:
        atomic.write_bytes(left_out, lines_bytes({"id": trace.id, "reason": like[at], "trace": trace.to_json()}
                                                 for at, trace in enumerate(iterate_traces(read)) if at in like))
    else:
        left_out.unlink(missing_ok=True)
    atomic.write_with(out, partial(write_rest, read, {*held_indices, *like}))
    return HeldOut(items=len(items), path=item_path(out), sha256=file_digest(item_path(out)), seed=seed,
                   left_out=len(like), left_out_path=left_out if like else None)


class _Candidates:
    """The traces that can become items: one per question without earlier turns and with one answer."""

    def __init__(self, traces: Iterable[Trace]) -> None:
        self.traces = 0
        first: dict[bytes, tuple[int, bytes]] = {}
        rows: dict[int, tuple[tuple[str, ...], int, bytes]] = {}
        for trace in traces:
            at, self.traces = self.traces, self.traces + 1
            question, answer = _digest(*question_key(trace)), _digest(*words(trace.answer), trace.answer)
            if question in first:
                # Of a question with two answers neither can be expected.
                if first[question][1] != answer:
                    rows.pop(first[question][0], None)
                continue
            first[question] = at, answer
            # An item is one question: a conversation would lose the turns before it.
            if not (trace.history or trace.tools or trace.tool_turns or trace.calls):
                rows[at] = (tuple(_label(trace, name) for name in STRATA), len(trace.steps), question)
        values = [{labels[index] for labels, _, _ in rows.values()} for index in range(len(STRATA))]
        used = [index for index, several in enumerate(values) if 2 <= len(several) <= _MAX_VALUES]
        # Filled up, so that numbers of steps sort as numbers.
        self.rows = {at: ((*(labels[index] for index in used), f"{steps:>4}"), question)
                     for at, (labels, steps, question) in rows.items()}

    def choose(self, n: int, seed: int) -> set[int]:
        """Places of the traces that are held out."""
        if len(self.rows) < n:
            raise RequestError(f"--hold-out {n} is too many",
                               f"at most {len(self.rows)}: this number of the {self.traces} traces have a unique "
                               "question, with one answer and without earlier turns",
                               f"--hold-out {max(1, len(self.rows) // 10)}")
        ordered = sorted(self.rows, key=lambda at: (self.rows[at][0], _digest(seed, self.rows[at][1])))
        # From 0 to 1, by the seed: a fixed start would always select the same place of every group.
        start = int.from_bytes(_digest(seed)[:4], "big") / (1 << 32)
        return {ordered[int((number + start) * len(ordered) / n)] for number in range(n)}


def _like(traces: Iterable[Trace], questions: Sequence[Question], held: set[int]) -> Iterator[tuple[int, str]]:
    """Places of the other traces that hold a question or are like one, and why."""
    near = _Near(questions)
    others = ((at, trace) for at, trace in enumerate(traces) if at not in held)
    # A part at a time, because a file may be larger than the memory.
    while part := list(islice(others, _AT_A_TIME)):
        yield from ((at, neighbor) for at, trace in part if (neighbor := near.like(trace)))
        yield from ((finding.record, f"{finding.kind}: {finding.text}") for finding in find_leaks(part, questions))


class _Near:
    """The held-out questions by passage, so that a trace is compared only with those that share one."""

    def __init__(self, questions: Sequence[Question]) -> None:
        self._questions = [(question.id, numbers(spelled := words(question.prompt)), passages(spelled))
                           for question in questions]
        self._by_passage: dict[tuple[str, ...], list[int]] = {}
        for number, (_, _, own) in enumerate(self._questions):
            for passage in own:
                self._by_passage.setdefault(passage, []).append(number)

    def like(self, trace: Trace) -> str:
        """The held-out question that one of a trace's questions resembles, in words; empty without one."""
        trace_questions = (trace.prompt, *earlier_texts(trace, "user"))
        return next((neighbor for prompt in trace_questions if (neighbor := self._like(words(prompt)))), "")

    def _like(self, spelled: list[str]) -> str:
        own, same = passages(spelled), numbers(spelled)
        shared = Counter(number for passage in own for number in self._by_passage.get(passage, ()))
        # By the most shared passages, so that the likeliest question is compared first.
        for number, count in shared.most_common():
            name, its_numbers, its_passages = self._questions[number]
            # Jaccard's similarity: the shared passages among all passages of both.
            similarity = count / (len(own) + len(its_passages) - count)
            if its_numbers == same and similarity >= min(least_similarity(same),
                                                         SAME_NUMBERS_SIMILARITY if same else SIMILARITY):
                return f"near_duplicate: {similarity:.2f} like {name}"
        return ""


def _item(trace: Trace) -> dict[str, Any]:
    labels = {name: label for name in LABELS if (label := getattr(trace, name))}
    return {"id": trace.id, "prompt": trace.prompt, "expected_answer": final_answer(trace.answer), **labels}


def _label(trace: Trace, name: str) -> str:
    value = getattr(trace, name) if name in LABELS else trace.metadata.get(name, "")
    # Floats and lists are not labels: such fields get one value and are not used.
    return str(value) if isinstance(value, str | int) else ""


def _digest(*parts: object) -> bytes:
    # By `repr` and not joined: `("a b",)` and `("a", "b")` are two questions.
    return hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()


def write_rest(read: Path, without: set[int], stream: BinaryIO) -> None:
    """Write the lines of a file without those of these numbers, counted from 0."""
    with read.open("rb") as lines:
        for at, line in enumerate(lines):
            if at not in without:
                stream.write(line)
