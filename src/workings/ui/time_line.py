"""Answers of a run to its sample questions during training, from its log."""

import ast
import re
from pathlib import Path

from pydantic import BaseModel

from workings.errors import RecordError
from workings.record.layout import LOG
from workings.record.untrusted_files import open_plain

MAX_LINES, MAX_ANSWERS, MAX_LINE_BYTES = 2_000, 40, 40_000
_TEXT = r"('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"
_LINE = re.compile(rf"sample after step (\d{{1,12}}): {_TEXT} -> {_TEXT} \((\w+)\)")


class AnswerAt(BaseModel):
    """The model's answer after a step."""

    step: int
    text: str
    finish_reason: str


class TimeLine(BaseModel):
    """One question and its answers, in the order of the steps."""

    prompt: str
    answers: list[AnswerAt]


def time_lines(run: Path) -> list[TimeLine]:
    """Questions that were answered more than once; of many answers some, evenly, with the first and the last."""
    by_prompt: dict[str, dict[int, AnswerAt]] = {}
    try:
        log = open_plain(run / LOG)
    except RecordError:  # no log, or no regular file
        return []
    taken = 0
    with log as file:
        while taken < MAX_LINES and (data := file.readline(MAX_LINE_BYTES)):
            if (match := _LINE.fullmatch(data.decode("utf-8", "replace").strip())) is None:
                continue
            taken += 1
            # Both are Python string literals by the pattern, unless the log is hostile.
            try:
                prompt, text = str(ast.literal_eval(match[2])), str(ast.literal_eval(match[3]))
            except (ValueError, SyntaxError):
                continue
            # A repeated step of a resumed run replaces the earlier one.
            by_prompt.setdefault(prompt, {})[int(match[1])] = AnswerAt(step=int(match[1]), text=text,
                                                                       finish_reason=match[4])
    return [TimeLine(prompt=prompt, answers=_some([answers[step] for step in sorted(answers)]))
            for prompt, answers in by_prompt.items() if len(answers) > 1]


def _some(answers: list[AnswerAt]) -> list[AnswerAt]:
    if len(answers) <= MAX_ANSWERS:
        return answers
    last = len(answers) - 1
    return [answers[round(number * last / (MAX_ANSWERS - 1))] for number in range(MAX_ANSWERS)]
