"""`workings data import --hold-out N`: keeps N questions for evaluation, and leaves traces like them out.

A digest of the seed and the question decides which questions are taken. So the same records with the same seed give
the same items, in any order.
"""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from workings.data.checking import overlap
from workings.data.checking.findings import earlier_questions
from workings.data.row_fields import LABELS, lines_bytes, path_beside
from workings.data.traces import Trace, item_json, read_traces, traces_bytes
from workings.errors import RequestError
from workings.record import atomic
from workings.record.digest import file_digest

ITEMS, LEFT_OUT = "items.jsonl", "left_out.jsonl"
"""Ends of the names of the files next to the traces: the items, and the traces that are like one."""
SAME_NUMBERS_SIMILARITY = 0.5
"""Share of three-word passages in common from which a question with the same numbers resembles a held-out one. It is
not above what `data check` reports: a trace too few costs little, a question learned by heart costs the evaluation."""


def split(read: Path, out: Path, n: int, seed: int) -> dict[str, Any]:
    """Split the traces of one file into items and the traces of another. Returns the keys of `held_out` in `--json`.

    `left_out` counts the traces that repeat a held-out question or are like it. Raises `RequestError` if there are
    fewer questions than requested, or no trace would be left.
    """
    traces = read_traces(read)
    held_out = _chosen(traces, n, seed)
    items = [item_json(traces[index], LABELS) for index in sorted(held_out)]
    others = [(index, trace) for index, trace in enumerate(traces) if index not in held_out]
    reasons = _resembling(others, {item["prompt"]: item["id"] for item in items})
    if len(reasons) == len(others):
        raise RequestError(f"--hold-out {n} leaves none of {len(traces)} traces: all others resemble it",
                           "a hold-out that leaves traces to learn from", f"--hold-out {max(1, n // 10)}")
    item_path, left_out_path = path_beside(out, ITEMS), path_beside(out, LEFT_OUT)
    atomic.write_bytes(item_path, lines_bytes(items))
    if reasons:
        atomic.write_bytes(left_out_path, lines_bytes(
            {"id": trace.id, "reason": reasons[index], "trace": trace.to_json()}
            for index, trace in others if index in reasons))
    else:
        left_out_path.unlink(missing_ok=True)
    # The traces last, because a file of traces without its items would look complete.
    atomic.write_bytes(out, traces_bytes(trace for index, trace in others if index not in reasons))
    result = {"items": len(items), "path": str(item_path), "sha256": file_digest(item_path), "seed": seed,
              "left_out": len(reasons)}
    if reasons:
        result["left_out_path"] = str(left_out_path)
    return result


def _chosen(traces: Sequence[Trace], n: int, seed: int) -> set[int]:
    """Indices of the traces that are held out: the first trace of each of ``n`` questions."""
    indices_by_question: dict[bytes, list[int]] = {}
    for index, trace in enumerate(traces):
        indices_by_question.setdefault(_digest(*overlap.question_key(trace)), []).append(index)
    with_one_answer = {question: indices for question, indices in indices_by_question.items()
                       if len({traces[index].answer for index in indices}) == 1}
    # An item can hold neither earlier turns nor tools.
    question_of_first = {first: question for question, (first, *_) in with_one_answer.items() if not (
        traces[first].history or traces[first].tools or traces[first].tool_turns or traces[first].calls)}
    most = len(question_of_first)
    if most < n:
        raise RequestError(f"--hold-out {n} is too many",
                           f"at most {most}: this number of the {len(traces)} traces have a unique question, "
                           "with one answer and without earlier turns", f"--hold-out {max(1, most // 10)}")
    return set(sorted(question_of_first, key=lambda index: _digest(seed, question_of_first[index]))[:n])


def _resembling(traces: Sequence[tuple[int, Trace]], id_of_question: Mapping[str, str]) -> dict[int, str]:
    """Indices of the traces that repeat or resemble a question, or have it in a text -> the reason."""
    passages, ids = overlap.PassageIndex(), list(id_of_question.values())
    for prompt in id_of_question:
        passages.add(overlap.words(prompt))
    reasons = {}
    for index, trace in traces:
        for text in map(overlap.words, (trace.prompt, *earlier_questions(trace))):
            similarity, number = max(passages.alike(text), default=(0.0, 0))
            least = overlap.least_similarity(overlap.numbers(text))
            if overlap.numbers(text):
                least = min(least, SAME_NUMBERS_SIMILARITY)
            if similarity >= least:
                reasons[index] = f"near_duplicate: {similarity:.2f} like {ids[number]}"
    leaks = overlap.find_leaks(traces, id_of_question)
    return reasons | {finding.record: f"{finding.kind}: {finding.text}" for finding in leaks}


def _digest(*parts: object) -> bytes:
    # By `repr` and not joined: `("a b",)` and `("a", "b")` are two questions.
    return hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
