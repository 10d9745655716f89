"""`--hold-out N`: splits evaluation questions off an import and leaves similar ones out of the traces.

Questions are taken in the order of a digest of seed and question: the same records with the same seed give the same
items, in any order.
"""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from workings.data.checking.findings import earlier_questions
from workings.data.checking.overlap import (
    SIMILARITY,
    PassageIndex,
    find_leaks,
    least_similarity,
    numbers,
    question_key,
    words,
)
from workings.data.row_fields import LABELS, lines_bytes, path_beside
from workings.data.traces import Trace, item_json, read_traces, traces_bytes
from workings.errors import RequestError
from workings.record import atomic
from workings.record.digest import file_digest

ITEMS, LEFT_OUT = "items.jsonl", "left_out.jsonl"
"""Ends of the names of the files next to the traces: the items, and the traces that are like one."""
SAME_NUMBERS_SIMILARITY = 0.5
"""Shared three-word passages from which a question with the same numbers counts as a held-out one. No higher than
what `data check` reports: a trace too few costs little, a question that was learned by heart costs the evaluation."""


def split(read: Path, out: Path, n: int, seed: int) -> dict[str, Any]:
    """Split the traces of one file into items and the traces of another. Returns the keys of `held_out` in `--json`.

    `left_out` counts the traces that repeat a held-out question or are like it.

    Raises:
        RequestError: fewer questions than requested, or no trace would be left.
    """
    traces = read_traces(read)
    held = _chosen(traces, n, seed)
    items = [item_json(traces[at], LABELS) for at in sorted(held)]
    others = [(at, trace) for at, trace in enumerate(traces) if at not in held]
    like = _like(others, {item["prompt"]: item["id"] for item in items})
    if len(like) == len(others):
        raise RequestError(f"--hold-out {n} leaves none of {len(traces)} traces: all others resemble it",
                           "a hold-out that leaves traces to learn from", f"--hold-out {max(1, n // 10)}")
    item_path, left_out = path_beside(out, ITEMS), path_beside(out, LEFT_OUT)
    # The traces last, because a file of traces without its items would look complete.
    atomic.write_bytes(item_path, lines_bytes(items))
    if like:
        atomic.write_bytes(left_out, lines_bytes({"id": trace.id, "reason": like[at], "trace": trace.to_json()}
                                                 for at, trace in others if at in like))
    else:
        left_out.unlink(missing_ok=True)
    atomic.write_bytes(out, traces_bytes(trace for at, trace in others if at not in like))
    return {"items": len(items), "path": str(item_path), "sha256": file_digest(item_path), "seed": seed,
            "left_out": len(like), **({"left_out_path": str(left_out)} if like else {})}


def _chosen(traces: Sequence[Trace], n: int, seed: int) -> set[int]:
    """Places of the traces that are held out: one per question without earlier turns and with one answer."""
    places: dict[bytes, list[int]] = {}
    for at, trace in enumerate(traces):
        places.setdefault(_digest(*question_key(trace)), []).append(at)
    # An item is one question: a conversation would lose the turns before it.
    questions = {
        same[0]: question for question, same in places.items()
        if not ((first := traces[same[0]]).history or first.tools or first.tool_turns or first.calls)
        and len({(tuple(words(traces[at].answer)), traces[at].answer) for at in same}) == 1}
    if len(questions) < n:
        raise RequestError(f"--hold-out {n} is too many",
                           f"at most {len(questions)}: this number of the {len(traces)} traces have a unique question, "
                           "with one answer and without earlier turns", f"--hold-out {max(1, len(questions) // 10)}")
    return set(sorted(questions, key=lambda at: _digest(seed, questions[at]))[:n])


def _like(traces: Sequence[tuple[int, Trace]], questions: Mapping[str, str]) -> dict[int, str]:
    """Places of the traces that hold a question or are like one, and why."""
    index, names = PassageIndex(), list(questions.values())
    for prompt in questions:
        index.add(words(prompt))
    reasons = {}
    for at, trace in traces:
        for text in map(words, (trace.prompt, *earlier_questions(trace))):
            same = numbers(text)
            alike, number = max(index.alike(text), default=(0.0, 0))
            if alike >= min(least_similarity(same), SAME_NUMBERS_SIMILARITY if same else SIMILARITY):
                reasons[at] = f"near_duplicate: {alike:.2f} like {names[number]}"
    return reasons | {finding.record: f"{finding.kind}: {finding.text}" for finding in find_leaks(traces, questions)}


def _digest(*parts: object) -> bytes:
    # By `repr` and not joined: `("a b",)` and `("a", "b")` are two questions.
    return hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
