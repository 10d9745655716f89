"""Overlap of traces with the questions of an evaluation set."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from workings.data.checking.findings import Finding, excerpt
from workings.data.checking.text import words
from workings.data.importing.records import Unreadable
from workings.data.importing.sources import open_file
from workings.data.traces import Trace
from workings.errors import RequestError

NGRAM = 13
"""Words of a passage that is taken for copied (Brown et al., 2020, use 13)."""


@dataclass(frozen=True)
class Question:
    """A question of an evaluation set."""

    id: str
    prompt: str


def read_questions(path: Path) -> list[Question]:
    """The questions of a file of items (`prompt` or `question`), whatever else its records hold.

    Raises:
        RequestError: naming file and line of a record without a question.
    """
    questions = []
    for record in open_file(path).records(lambda _: None):
        value = record.value if not isinstance(record, Unreadable) else None
        prompt = (value.get("prompt") or value.get("question")) if isinstance(value, dict) else None
        if not isinstance(value, dict) or not isinstance(prompt, str):
            raise RequestError(f"{path}:{record.number}: no question",
                               "a record with `prompt` or `question`", "an items file, as `workings eval` reads it")
        questions.append(Question(str(value.get("id", f"line {record.number}")), prompt))
    return questions


def find_leaks(traces: Sequence[tuple[int, Trace]], questions: Sequence[Question], ngram: int = NGRAM
               ) -> Iterator[Finding]:
    """At most one finding a trace, the plainest: the question itself, its words, or a long passage of it anywhere."""
    exact = {question.prompt: question.id for question in questions}
    spelled = [(question, words(question.prompt)) for question in questions]
    normalized = {tuple(text): question.id for question, text in spelled}
    passages = {tuple(text[at:at + ngram]): question.id
                for question, text in spelled for at in range(len(text) - ngram + 1)}
    for number, trace in traces:
        asked = words(trace.prompt)
        if trace.prompt in exact:
            kind, text = "leak", f"asked as {exact[trace.prompt]}: {excerpt(trace.prompt)}"
        elif tuple(asked) in normalized:
            kind, text = "normalized_leak", f"asked as {normalized[tuple(asked)]}: {excerpt(trace.prompt)}"
        elif passage := _passage(trace, asked, passages, ngram):
            kind, text = "ngram_leak", f"{ngram} words of {passages[passage]}: {excerpt(' '.join(passage))}"
        else:
            continue
        yield Finding(kind=kind, record=number, id=trace.id, text=text)


def _passage(trace: Trace, asked: list[str], passages: dict[tuple[str, ...], str], ngram: int
             ) -> tuple[str, ...] | None:
    """The first passage of an evaluation question in the trace's question, steps or answer."""
    if not passages:
        return None
    for text in (asked, *(words(step) for step in trace.steps), words(trace.answer)):
        for at in range(len(text) - ngram + 1):
            if (piece := tuple(text[at:at + ngram])) in passages:
                return piece
    return None
