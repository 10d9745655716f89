"""`data check`: of traces one by one and those with the same question, of pairs, of leaks and of rows."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from workings.answers.extract import answer_kind
from workings.answers.latex import plain
from workings.answers.numbers import parse_number, parse_words
from workings.answers.texts import same_answer
from workings.data.checking.findings import TURN_MARKS, CheckReport, DataFinding, Numbered, excerpt, shown
from workings.data.checking.overlap import find_leaks, near_duplicates, question_words, words
from workings.data.checking.pairs import pair_findings
from workings.data.equations.check import find_equations
from workings.data.importing.completion import final_answer
from workings.data.preferences import PreferencePair
from workings.data.traces import Trace
from workings.record.manifest import DRAWN_FROM

_NUMBER = re.compile(r"\d{1,3}(?:[, ]\d{3})+(?:\.\d+)?(?!\d)|\d+\s?/\s?\d+|\d+(?:\.\d+)?|\.\d+")
_BOX = re.compile(r"(=[\s$]*)?\\(?:boxed|fbox)\s*\{((?:[^{}]|\{[^{}]*\}){0,200})\}")
_CONNECTED = re.compile(r"(?:[\s,.;:$]|\b(?:so|thus|therefore|hence|then|giving|we|get|have|the|final|answer|is)\b)*",
                        re.IGNORECASE)
_WORD = re.compile(r"[a-z]+(?:-[a-z]+)?", re.IGNORECASE)
_CALCULATES = re.compile(r"\d\D{0,40}[-+*/×·÷]")
# A result at the end of the last step, with a unit or a few words after it.
_RESULT = re.compile(rf"\W{{0,9}}(?P<result>{_NUMBER.pattern})(?P<after>\D{{0,80}})", re.IGNORECASE)
_COLUMN_DIGITS = 2
"""Most digits of a column's sum."""
MAX_CHARACTERS = 20_000
"""Trailing characters of the steps to read."""


def mentions(steps: Sequence[str], answer: Fraction) -> bool:
    """Whether any step has a number that the answer may be: its value, rounded, in cents or as a percentage.

    Signs do not count: in `12-5=7` the 5 is read with a minus in front of it.
    """
    magnitude = abs(answer)
    for value, exact in _numbers(_shown("\n".join(steps)[-MAX_CHARACTERS:])):
        if magnitude in (value, value * 100, value / 100) or (not exact and abs(value - magnitude) < 1):
            return True
    return False


def ends_elsewhere(steps: Sequence[str], answer: Fraction) -> bool:
    """Whether the last step ends in a calculated result (`3 + 4 = 7`) although no step mentions the answer."""
    last = next((step for step in reversed(steps) if step.strip()), "")[-2_000:].strip()
    left, equals, right = _shown(last.rpartition("\n")[2]).rpartition("=")
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


def _shown(text: str) -> str:
    """LaTeX as plain text, without boxes: the content of one is the answer itself, unless a calculation gives it."""
    return plain(_BOX.sub(lambda box: f"{box[1]} {box[2]}" if box[1] else " ", text)) if "\\" in text else text


def _numbers(text: str) -> Iterator[tuple[Fraction, bool]]:
    """Numbers of a text in digits and words, and whether each is a whole number, which is never rounded."""
    for match in _NUMBER.finditer(text):
        number = parse_number(match.group()) if len(match.group()) <= 60 else None
        if number is not None:
            yield number.value, number.value.denominator == 1
        # "100 000" may be one number or two.
        if " " in match.group():
            yield from ((Fraction(part), True) for part in re.findall(r"\d+", match.group()))
    for word in set(_WORD.findall(text)):
        number = parse_words(word)
        if number is not None:
            yield number.value, True


MAX_CLOSED_WORDS = 6
"""Maximum words of a closed answer; longer ones answer open questions."""
_OPEN = re.compile(
    r"\W*(?:please\s+|can you\s+|could you\s+)?(?:name|give|suggest|write|create|generate|compose|provide|think of"
    r"|come up with|recommend|pick|choose|invent|propose|make up|tell me|describe|list|mention)\s+(?:me\s+)?"
    r"(?:an?|one|some|any|another|two|three|\d)\b", re.IGNORECASE)
"""Beginnings of questions that have several short answers as well: "Name a fruit."."""
_SENTENCE_ENDS = re.compile(r"[.!?:](?=\s+\S)|\n+(?=\S)|[.!?]\Z")
MAX_NOT_REACHED = 0.2
"""Above this share of traces without a derived answer it is the file's style, not a mistake."""
MIN_UNTRUSTED = 5
_CONTROL = re.compile(rf"{TURN_MARKS.pattern}|</?(?:reasoning|answer|think)>|<\|channel>|<channel\|>")


RowProblems = Callable[[Sequence[Any]], Iterator[tuple[str, str]]]
"""Given entries, yields (id, reason) of those that give no row; see `workings.data.rows.row_problems`."""


def check(read: Numbered, questions: Mapping[str, str] | None = None, *, row_problems: RowProblems | None = None
          ) -> CheckReport:
    """Every check over traces or pairs that were read (`read_tolerantly`).

    ``questions``: those of an evaluation set that must not be trained on, each with its id. ``row_problems`` finds
    problems in a recipe's rows.
    """
    traces = [(position, entry) for position, entry in read.entries if isinstance(entry, Trace)]
    pairs = [(position, entry) for position, entry in read.entries if isinstance(entry, PreferencePair)]
    alone = [DataFinding(kind, position, trace.id, text) for position, trace in traces for kind, text in _alone(trace)]
    findings = [*read.findings, *_trusted(alone, len(traces)), *_repeated_questions(traces),
                *pair_findings(pairs, read.name)]
    findings += find_leaks(read.entries, questions) if questions else ()
    positions = {entry.id: position for position, entry in read.entries}
    problems = row_problems([entry for _, entry in read.entries]) if row_problems else ()
    findings += [DataFinding("row", positions[name], name, text) for name, text in problems]
    # A stable sort: findings about one record stay in the order of the checks.
    return CheckReport(records=read.records, findings=tuple(sorted(findings, key=lambda finding: finding.record)))


def _trusted(findings: list[DataFinding], traces: int) -> list[DataFinding]:
    """The findings; underived answers are only notes if they are the file's style."""
    count = sum(finding.kind == "answer_not_reached" for finding in findings)
    if count < MIN_UNTRUSTED or count <= MAX_NOT_REACHED * traces:
        return findings
    return [replace(finding, kind="answer_not_in_steps") if finding.kind == "answer_not_reached" else finding
            for finding in findings]


def _alone(trace: Trace) -> Iterator[tuple[str, str]]:
    """Findings about one trace that do not depend on the others."""
    empty = [str(number) for number, step in enumerate(trace.steps, start=1) if not step.strip()]
    if empty:
        yield "empty_step", f"step {', '.join(empty)}"
    # Each step with its predecessor; the two have unequal lengths.
    repeated = [step for step, before in zip(trace.steps[1:], trace.steps, strict=False)
                if step.strip() == before.strip()]
    if any(step.strip() for step in repeated):
        yield "repeated_step", shown(repeated)
    # The steps as one text: what a later line takes back ("that is wrong") is not a mistake of the trace. Most answers
    # of conversations contain their calculation.
    written = ("\n".join(trace.steps), trace.answer, *_calculations(trace.metadata.get("calculations")))
    equations = [equation for text in written for equation in find_equations(text) if equation.verdict == "wrong"]
    # Each once: an equation is often in a step and again in its annotation.
    if doubtful := dict.fromkeys(f"{equation.written} ({equation.doubt})" for equation in equations if equation.doubt):
        yield "doubtful_equation", shown(list(doubtful))
    if wrong := dict.fromkeys(equation.written for equation in equations if not equation.doubt):
        yield "wrong_equation", shown(list(wrong))
    texts = (trace.prompt, *trace.steps, trace.answer)
    if forged := [match.group() for text in texts for match in _CONTROL.finditer(text)]:
        yield "control_text", shown(forged)
    if not trace.steps:
        # Conversations and Alpaca's files have their chain of thought in the answer.
        if not (trace.is_text or _is_chain(trace.answer)):
            yield "no_steps", excerpt(trace.subject)
    elif (number := parse_number(final_answer(trace.answer))) is not None and not mentions(trace.steps, number.value):
        # Steps that end in another result lead elsewhere; others may only leave the last calculation out.
        kind = "answer_not_reached" if ends_elsewhere(trace.steps, number.value) else "answer_not_in_steps"
        yield kind, f"{excerpt(trace.answer, 40)}: {excerpt(trace.steps[-1])}"
    if not trace.licence:
        yield "no_licence", trace.source or "no source either"


def _is_chain(answer: str) -> bool:
    """Whether an answer shows how it was found: a calculation, or several sentences or lines."""
    return len(_SENTENCE_ENDS.findall(answer.strip())) > 1 or bool(find_equations(answer))


def _calculations(annotations: Any) -> Iterator[str]:
    """Calculator annotations that the import took out of the steps."""
    for step in annotations if isinstance(annotations, list) else ():
        yield from (text for text in (step if isinstance(step, list) else ()) if isinstance(text, str))


def _repeated_questions(traces: Sequence[tuple[int, Trace]]) -> list[DataFinding]:
    """Duplicates and near ones, and different answers to one question (about every trace that gives one)."""
    findings: list[DataFinding] = []
    groups: dict[tuple[object, ...], list[tuple[int, Trace]]] = {}
    spelled = [question_words(trace) for _, trace in traces]
    for (position, trace), text in zip(traces, spelled, strict=True):
        # The key includes the number of turns, because words do not show where a turn ends.
        groups.setdefault((len(trace.history), *text), []).append((position, trace))
    for members in groups.values():
        findings += _about_group(members) if len(members) > 1 else []
    # Only the first of each group is compared further: the others are named already.
    alone = {members[0][0] for members in groups.values()}
    first = [index for index, (position, _) in enumerate(traces) if position in alone]
    for later, before, similarity in near_duplicates([spelled[index] for index in first]):
        position, trace = traces[first[later]]
        other = traces[first[before]][1]
        findings.append(DataFinding("near_duplicate", position, trace.id,
                                    f"{similarity:.2f} like {other.id}: {excerpt(other.subject)}"))
    return findings


def _about_group(members: Sequence[tuple[int, Trace]]) -> list[DataFinding]:
    """Findings about traces that ask the same."""
    finals = [final_answer(trace.answer) for _, trace in members]
    # An open question has several good answers: long ones, or one of many ("Name a fruit.").
    is_long = any(len(words(answer)) > MAX_CLOSED_WORDS for answer in finals)
    asks_for_one_of_many = _OPEN.match(members[0][1].prompt) is not None
    if not is_long and _contradict(finals, texts_may_differ=asks_for_one_of_many):
        # The correct answer is unknown, so name all.
        answers = shown([f"{trace.id} says {trace.answer}" for _, trace in members])
        return [DataFinding("conflict", position, trace.id, f"{excerpt(trace.subject)}: {answers}")
                for position, trace in members]
    findings = []
    earlier_subjects: set[str] = set()
    earlier_answers: set[tuple[str, ...]] = set()
    earlier: dict[tuple[tuple[str, ...], str], Trace] = {}
    for (position, trace), final in zip(members, finals, strict=True):
        same_completion = earlier.get((trace.steps, trace.answer))
        like = same_completion
        # A sample has its trace's question, so only the same completion makes it a duplicate.
        if like is None and DRAWN_FROM not in trace.metadata:
            like = next((other for other in earlier.values() if DRAWN_FROM not in other.metadata), None)
        answer = tuple(words(final))
        if like is not None:
            is_new = trace.subject in earlier_subjects and same_completion is None and answer not in earlier_answers
            kind = "another_answer" if is_new and (is_long or asks_for_one_of_many) else "duplicate"
            findings.append(DataFinding(kind, position, trace.id, f"like {like.id}: {excerpt(trace.subject)}"))
        earlier_subjects.add(trace.subject)
        earlier_answers.add(answer)
        earlier.setdefault((trace.steps, trace.answer), trace)
    return findings


def _contradict(answers: Sequence[str], *, texts_may_differ: bool) -> bool:
    """Whether the first answer and the first one that differs from it cannot both be right."""
    for answer in answers[1:]:
        if not (same_answer(answer, answers[0]) or same_answer(answers[0], answer)):
            are_texts = {answer_kind(answers[0]), answer_kind(answer)} <= {"text", "name"}
            return not (texts_may_differ and are_texts)
    return False
