"""`workings data check`: looks for mistakes in traces and pairs, in the rows made of them, and for leaks.

The checks of one trace come first, then those of traces with the same question. Checks of pairs are in
`workings.data.checking.pairs`, those of leaks in `workings.data.checking.overlap`.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import chain
from typing import Any

from workings.answers.extract import answer_kind
from workings.answers.latex import plain
from workings.answers.numbers import parse_number, parse_words
from workings.answers.texts import same_answer
from workings.data.checking.findings import TURN_MARKS, CheckReport, DataFinding, ReadFile, excerpt, shown
from workings.data.checking.overlap import find_leaks, near_duplicates, question_words, words
from workings.data.checking.pairs import pair_findings
from workings.data.equations.check import find_equations
from workings.data.importing.completion import final_answer
from workings.data.preferences import PreferencePair
from workings.data.traces import Trace
from workings.record.manifest import DRAWN_FROM

MAX_NOT_REACHED = 0.2
"""Share of traces whose steps lead elsewhere, above which this is the file's style and no mistake."""
MIN_UNTRUSTED = 5
"""Fewer such traces always count as mistakes."""
MAX_CLOSED_WORDS = 6
"""Maximum words of a closed answer; longer ones answer open questions."""
MAX_CHARACTERS = 20_000
"""Characters of the steps to search for the answer, from their end."""
_COLUMN_DIGITS = 2
"""Maximum digits of the sum of one column."""
_MAX_NUMBER_CHARACTERS = 60
_OPEN = re.compile(
    r"\W*(?:please\s+|can you\s+|could you\s+)?(?:name|give|suggest|write|create|generate|compose|provide|think of"
    r"|come up with|recommend|pick|choose|invent|propose|make up|tell me|describe|list|mention)\s+(?:me\s+)?"
    r"(?:an?|one|some|any|another|two|three|\d)\b", re.IGNORECASE)
"""Beginnings of questions with several short answers: "Name a fruit."."""
_SENTENCE_ENDS = re.compile(r"[.!?:](?=\s+\S)|\n+(?=\S)|[.!?]\Z")
_CONTROL = re.compile(rf"{TURN_MARKS.pattern}|</?(?:reasoning|answer|think)>|<\|channel>|<channel\|>")
_NUMBER = re.compile(r"\d{1,3}(?:[, ]\d{3})+(?:\.\d+)?(?!\d)|\d+\s?/\s?\d+|\d+(?:\.\d+)?|\.\d+")
_WORD = re.compile(r"[a-z]+(?:-[a-z]+)?", re.IGNORECASE)
_BOX = re.compile(r"(=[\s$]*)?\\(?:boxed|fbox)\s*\{((?:[^{}]|\{[^{}]*\}){0,200})\}")
_CALCULATES = re.compile(r"\d\D{0,40}[-+*/×·÷]")
# A result at the end of the last step, with a unit or a few words after it.
_RESULT = re.compile(rf"\W{{0,9}}(?P<result>{_NUMBER.pattern})(?P<after>\D{{0,80}})", re.IGNORECASE)
_CONNECTED = re.compile(r"(?:[\s,.;:$]|\b(?:so|thus|therefore|hence|then|giving|we|get|have|the|final|answer|is)\b)*",
                        re.IGNORECASE)

RowProblems = Callable[[Sequence[Any]], Iterator[tuple[str, str]]]
"""Given entries, yields (id, reason) of those that give no row; see `workings.data.rows.row_problems`."""
Positioned = Sequence[tuple[int, Trace]]
"""Traces with their positions in the file."""


def check(read: ReadFile, questions: Mapping[str, str] | None = None, *, row_problems: RowProblems | None = None
          ) -> CheckReport:
    """Every check of the traces or pairs that `read_tolerantly` has read.

    ``questions``: those of an evaluation set that must not be trained on, with their ids. ``row_problems`` finds the
    problems of a recipe's rows.
    """
    traces = [(position, entry) for position, entry in read.entries if isinstance(entry, Trace)]
    pairs = [(position, entry) for position, entry in read.entries if isinstance(entry, PreferencePair)]
    findings = [*read.findings, *_single_traces(traces), *_repeated_questions(traces), *pair_findings(pairs, read.name)]
    if questions:
        findings += find_leaks(read.entries, questions)
    if row_problems is not None:
        positions = {entry.id: position for position, entry in read.entries}
        findings += [DataFinding("row", positions[name], name, reason)
                     for name, reason in row_problems([entry for _, entry in read.entries])]
    # A stable sort: findings about one record stay in the order of the checks.
    return CheckReport(records=read.records, findings=tuple(sorted(findings, key=lambda finding: finding.record)))


def _single_traces(traces: Positioned) -> list[DataFinding]:
    """Findings about traces that do not depend on the others."""
    findings = [DataFinding(kind, position, trace.id, text)
                for position, trace in traces for kind, text in _about_trace(trace)]
    not_reached = sum(finding.kind == "answer_not_reached" for finding in findings)
    if not_reached < MIN_UNTRUSTED or not_reached <= MAX_NOT_REACHED * len(traces):
        return findings
    # The file's style: only a note.
    return [replace(finding, kind="answer_not_in_steps") if finding.kind == "answer_not_reached" else finding
            for finding in findings]


def _about_trace(trace: Trace) -> Iterator[tuple[str, str]]:
    """Kind and text of each finding about one trace."""
    empty = [str(number) for number, step in enumerate(trace.steps, start=1) if not step.strip()]
    if empty:
        yield "empty_step", f"step {', '.join(empty)}"
    repeated = [step for before, step in zip(trace.steps, trace.steps[1:], strict=False)
                if step.strip() == before.strip()]
    if any(step.strip() for step in repeated):
        yield "repeated_step", shown(repeated)
    yield from _wrong_equations(trace)
    forged = [match.group() for text in (trace.prompt, *trace.steps, trace.answer) for match in _CONTROL.finditer(text)]
    if forged:
        yield "control_text", shown(forged)
    if trace.steps:
        yield from _about_answer(trace)
    # A calculation, or several sentences or lines, show how an answer was found.
    elif not (trace.is_text or len(_SENTENCE_ENDS.findall(trace.answer.strip())) > 1 or find_equations(trace.answer)):
        yield "no_steps", excerpt(trace.subject)
    if not trace.licence:
        yield "no_licence", trace.source or "no source either"


def _wrong_equations(trace: Trace) -> Iterator[tuple[str, str]]:
    # The steps are one text: what a later line takes back ("that is wrong") is not a mistake of the trace.
    texts = ["\n".join(trace.steps), trace.answer, *_annotations(trace.metadata.get("calculations"))]
    wrong = [equation for text in texts for equation in find_equations(text) if equation.verdict == "wrong"]
    # An equation may be in a step and again in its annotation; each is named once.
    if doubtful := dict.fromkeys(f"{equation.written} ({equation.doubt})" for equation in wrong if equation.doubt):
        yield "doubtful_equation", shown(list(doubtful))
    if certain := dict.fromkeys(equation.written for equation in wrong if not equation.doubt):
        yield "wrong_equation", shown(list(certain))


def _annotations(by_step: Any) -> Iterator[str]:
    """Calculator annotations that the import took out of the steps: a list of texts for each step."""
    for annotations in by_step if isinstance(by_step, list) else ():
        if isinstance(annotations, list):
            yield from (text for text in annotations if isinstance(text, str))


def _about_answer(trace: Trace) -> Iterator[tuple[str, str]]:
    number = parse_number(final_answer(trace.answer))
    if number is None or mentions(trace.steps, number.value):
        return
    # Steps that end in another result lead elsewhere; others may only leave out the last calculation.
    kind = "answer_not_reached" if ends_elsewhere(trace.steps, number.value) else "answer_not_in_steps"
    yield kind, f"{excerpt(trace.answer, 40)}: {excerpt(trace.steps[-1])}"


def mentions(steps: Sequence[str], answer: Fraction) -> bool:
    """Whether a step has a number that the answer may be: its value, rounded, in cents or as a percentage.

    Signs do not count: in `12-5=7` the 5 is read with a minus in front of it.
    """
    magnitude, text = abs(answer), _without_boxes("\n".join(steps)[-MAX_CHARACTERS:])
    in_words = (number.value for number in map(parse_words, set(_WORD.findall(text))) if number is not None)
    if any(magnitude in (number, number * 100, number / 100) for number in chain(_numbers_in_digits(text), in_words)):
        return True
    # Only decimals and fractions are rounded.
    return any(number.denominator != 1 and abs(number - magnitude) < 1 for number in _numbers_in_digits(text))


def _numbers_in_digits(text: str) -> Iterator[Fraction]:
    for match in _NUMBER.finditer(text):
        written = match.group()
        number = parse_number(written) if len(written) <= _MAX_NUMBER_CHARACTERS else None
        if number is not None:
            yield number.value
        # "100 000" may be one number or two.
        if " " in written:
            yield from map(Fraction, re.findall(r"\d+", written))


def ends_elsewhere(steps: Sequence[str], answer: Fraction) -> bool:
    """Whether the last step ends in a calculated result (`3 + 4 = 7`) although no step mentions the answer."""
    last = next((step for step in reversed(steps) if step.strip()), "")[-2_000:].strip()
    left, equals, right = _without_boxes(last.rpartition("\n")[2]).rpartition("=")
    if not equals or not _CALCULATES.search(left.rpartition("=")[2]):
        return False
    match = _RESULT.fullmatch(right)
    # "2+3=5, so the number of primes is \boxed{3}" continues after its calculation.
    if match is None or (_BOX.search(last) and not _CONNECTED.fullmatch(match["after"])):
        return False
    # In a sum that is worked out column by column, the last result is the beginning of the answer.
    result, answer_digits = match["result"], str(abs(answer.numerator))
    is_column = len(result) <= _COLUMN_DIGITS and len(result) < len(answer_digits)
    return not (is_column and answer_digits.startswith(result))


def _without_boxes(text: str) -> str:
    """LaTeX as plain text. The content of a box stays only after an equals sign; elsewhere it is the answer itself."""
    return plain(_BOX.sub(lambda box: f"{box[1]} {box[2]}" if box[1] else " ", text)) if "\\" in text else text


def _repeated_questions(traces: Positioned) -> list[DataFinding]:
    """Duplicates, near duplicates, and different answers to one question."""
    groups: dict[tuple[object, ...], list[tuple[int, Trace]]] = {}
    question_of_group: list[list[str]] = []
    for position, trace in traces:
        question = question_words(trace)
        # Words do not show where a turn ends, so the number of turns is part of the key.
        group = groups.setdefault((len(trace.history), *question), [])
        if not group:
            question_of_group.append(question)
        group.append((position, trace))
    findings = [finding for group in groups.values() if len(group) > 1 for finding in _about_group(group)]
    # The other traces of a group are named already.
    firsts = [group[0] for group in groups.values()]
    for number, earlier_number, similarity in near_duplicates(question_of_group):
        (position, trace), (_, earlier) = firsts[number], firsts[earlier_number]
        findings.append(DataFinding("near_duplicate", position, trace.id,
                                    f"{similarity:.2f} like {earlier.id}: {excerpt(earlier.subject)}"))
    return findings


def _about_group(group: Positioned) -> list[DataFinding]:
    """Findings about traces with the same question."""
    answers = [final_answer(trace.answer) for _, trace in group]
    # An open question has several good answers: long ones, or one of many ("Name a fruit.").
    is_long = any(len(words(answer)) > MAX_CLOSED_WORDS for answer in answers)
    asks_for_one_of_many = _OPEN.match(group[0][1].prompt) is not None
    if not is_long and _contradict(answers, texts_may_differ=asks_for_one_of_many):
        # It is unknown which answer is right, so all are named.
        said = shown([f"{trace.id} says {trace.answer}" for _, trace in group])
        return [DataFinding("conflict", position, trace.id, f"{excerpt(trace.subject)}: {said}")
                for position, trace in group]
    return list(_repetitions(group, answers, is_open=is_long or asks_for_one_of_many))


def _repetitions(group: Positioned, answers: Sequence[str], *, is_open: bool) -> Iterator[DataFinding]:
    """Traces of a group that repeat an earlier one, or (``is_open``) give another answer to its open question."""
    earlier: dict[tuple[tuple[str, ...], str], Trace] = {}
    earlier_subjects: set[str] = set()
    earlier_answers: set[tuple[str, ...]] = set()
    for (position, trace), final in zip(group, answers, strict=True):
        same_completion = earlier.get((trace.steps, trace.answer))
        original = same_completion
        # A sample has its trace's question, so only the same completion makes it a duplicate.
        if original is None and DRAWN_FROM not in trace.metadata:
            original = next((other for other in earlier.values() if DRAWN_FROM not in other.metadata), None)
        answer = tuple(words(final))
        if original is not None:
            is_new = trace.subject in earlier_subjects and same_completion is None and answer not in earlier_answers
            kind = "another_answer" if is_new and is_open else "duplicate"
            yield DataFinding(kind, position, trace.id, f"like {original.id}: {excerpt(trace.subject)}")
        earlier_subjects.add(trace.subject)
        earlier_answers.add(answer)
        earlier.setdefault((trace.steps, trace.answer), trace)


def _contradict(answers: Sequence[str], *, texts_may_differ: bool) -> bool:
    """Whether the first answer and the first one that differs from it cannot both be right."""
    first = answers[0]
    for answer in answers[1:]:
        if not (same_answer(answer, first) or same_answer(first, answer)):
            are_texts = {answer_kind(first), answer_kind(answer)} <= {"text", "name"}
            return not (texts_may_differ and are_texts)
    return False
