"""Search, filter and page the items of an evaluation or a unit of samples; compare two evaluations item by item."""

import difflib
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from workings.errors import RecordError, RequestError
from workings.evaluation.first_wrong_step import NOT_FOUND, RIGHT, UNSCORED, WRONG_STEP_KINDS, kind_of_text
from workings.record.layout import EVALUATION_CONFIG, EVALUATION_SUMMARY, PARTIAL_SUFFIX, PREDICTIONS, SELECTION
from workings.samples.candidates import SampleOrigin
from workings.samples.selection import Selection, select
from workings.scoring.steps import WrongPlace, wrong_place
from workings.ui.folder import Folder
from workings.ui.requests import paged

# More would be slow to render: each row holds a whole prompt and a whole completion.
ITEMS_A_PAGE = 50
Result = Literal["", "right", "wrong", "error"]
Change = Literal["newly_right", "newly_wrong", "both_wrong", "both_right"]
RESULT_ORDER: tuple[Result, ...] = ("error", "wrong", "right")
"""Order of the items on a page: what needs a look comes first."""
ANY_STEP = "a wrong equation"
STEP_FILTERS = (ANY_STEP, *WRONG_STEP_KINDS, RIGHT, NOT_FOUND)
"""Filters of items: any wrong step, or the scored kinds of `workings.evaluation.first_wrong_step`."""
# Each character is of one of the three kinds, so the joined tokens are the text.
_TOKEN = re.compile(r"\s+|[^\s\w]|\w+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One completion of one item. A plain class: an evaluation has thousands, made from validated JSON."""

    id: str
    sample: int
    section: str
    category: str
    difficulty: str
    prompt: str
    completion: str
    extracted: Annotated[str, Field(description="The answer that the rule extracted; empty: none")]
    gold: str
    rule: str
    right: bool
    error: str = ""
    finish_reason: str = ""
    fate: Annotated[str, Field(description="For a sample: `kept`, or why it was left out")] = ""
    wrong_step: Annotated[WrongPlace | None, Field(description="The first step that is wrong; worked out for what is "
                                                   "shown")] = None


class ItemsQuery(BaseModel):
    """An evaluation of a run, filters of its items, and a page."""

    unit: str = Field(default="", description="Name of the evaluation; empty: `items`, else the first")
    q: str = Field(default="", max_length=500, description="Text to find in the item or its answer")
    result: Result = ""
    section: str = ""
    rule: str = ""
    wrong_step: str = ""
    fate: str = Field(default="", description="For samples: `kept`, or why they were left out")
    compact: bool = Field(default=False, description="One line per item, opened by a click")
    page: int = 1


class AnswersPage(BaseModel):
    """A page of an evaluation's items."""

    unit: str
    units: list[str]
    total: int
    found: int
    page: int
    pages: int
    sections: list[str]
    rules: list[str]
    steps: list[str] = Field(default=list(STEP_FILTERS), description="What `wrong_step` may be")
    fates: dict[str, int] = Field(default={}, description="For samples: counts by `kept` or the reason for leaving "
                                  "them out")
    rows: list[Answer]


class AnswerPiece(BaseModel):
    """A piece of text, and whether the other side has it too."""

    text: str
    same: bool
    wrong: bool = Field(default=False, description="Part of the first wrong step")
    right_value: str = Field(default="", description="At the end of that step: the correct value")


class AnswerPair(BaseModel):
    """One item answered by two runs, with differences marked."""

    id: str
    section: str
    prompt: str
    gold: str
    change: Change
    a: Answer
    b: Answer
    a_pieces: list[AnswerPiece]
    b_pieces: list[AnswerPiece]


def units_of(run: Path) -> dict[str, Path]:
    """Evaluations of a run by name; a standalone evaluation contains itself only."""
    if (run / EVALUATION_SUMMARY).is_file():
        return {run.name: run}
    return {path.parent.name: path.parent for path in sorted(run.glob(f"eval/*/{EVALUATION_SUMMARY}"))
            if not path.parent.name.endswith(PARTIAL_SUFFIX)}


def unit_path(run: Path, name: str) -> tuple[str, Path]:
    """The requested evaluation: by name, else the one called `items`, else the first.

    Raises:
        RequestError: the run has no evaluation, or none of that name.
    """
    units = units_of(run)
    if not units or (name and name not in units):
        raise RequestError(f"evaluation {name or 'of this run'}",
                           "one of: " + ", ".join(units) if units else "a run that was evaluated",
                           f"workings eval {run.name} --items ITEMS.jsonl --out {run.name}/eval/items")
    chosen = name or ("items" if "items" in units else next(iter(units)))
    return chosen, units[chosen]


def read_answers(folder: Folder, unit: Path) -> list[Answer]:
    """All completions of an evaluation. Raises `RecordError` for lines that are not scored predictions."""
    path = unit / PREDICTIONS
    if not path.is_file():
        raise RecordError(f"{path.name} is missing")
    tail = folder.tail(path)
    # Building the rows costs more than reading the lines: cache them until the file grows.
    cached: Any = tail.derived
    lines = tail.lines()
    if cached is None or len(cached) != len(lines):
        try:
            cached = [_answer(line) for line in lines]
        # All lines or none: a page with some of the items would show a wrong accuracy.
        except (KeyError, TypeError, ValueError) as error:
            raise RecordError(f"{path.name} has a line that is not a scored prediction") from error
        tail.derived = cached
    answers: list[Answer] = cached
    return answers


def _answer(line: dict[str, Any]) -> Answer:
    completion, extracted, finish = line["completion"], line["extracted"], line["finish_reason"]
    # An absent completion or answer is an object with the reason.
    missing = completion.get("absent", "") if isinstance(completion, dict) else ""
    return Answer(
        id=str(line["id"]), sample=int(line["sample"]), section=str(line["section"]), category=str(line["category"]),
        difficulty=str(line["difficulty"]), prompt=str(line["prompt"]),
        completion="" if missing else str(completion), extracted="" if isinstance(extracted, dict) else str(extracted),
        gold=str(line["gold"]), rule=str(line["rule"]), right=line["score"] == 1,
        error=str(line.get("error", missing)), finish_reason="" if isinstance(finish, dict) else str(finish))


def search(folder: Folder, run: Path, query: ItemsQuery) -> AnswersPage:
    """Items that pass all filters; the text is searched in id, prompt, completion, gold and extracted answer.

    Raises:
        RequestError: no such evaluation, no such kind of step, or a page that does not exist.
    """
    name, path = unit_path(run, query.unit)
    rows = read_answers(folder, path)
    has_step = step_filter(folder, path, query.wrong_step)
    fates = sample_fates(folder, path)
    text = query.q.casefold()
    matches = [row for row in rows
               if (not query.section or row.section == query.section) and (not query.rule or row.rule == query.rule)
               and (not query.result or _result(row) == query.result) and has_step(row)
               and (not query.fate or fates.get((row.id, row.sample)) == query.fate)
               and (not text or any(text in value.casefold() for value in
                                    (row.id, row.prompt, row.completion, row.gold, row.extracted)))]
    if not fates:  # samples are read in the order of their prompts
        # Sorting is stable: within each result the order of the file stays.
        matches.sort(key=lambda row: RESULT_ORDER.index(_result(row)))
    # Only on the shown page, because parsing all equations takes seconds.
    shown, pages = paged(matches, query.page, ITEMS_A_PAGE)
    return AnswersPage(unit=name, units=list(units_of(run)), total=len(rows), found=len(matches), page=query.page,
                       pages=pages, sections=sorted({row.section for row in rows}),
                       rules=sorted({row.rule for row in rows}),
                       fates=dict(Counter(fates.values()).most_common()),
                       rows=[replace(row, wrong_step=wrong_place(row.completion),
                                     fate=fates.get((row.id, row.sample), "")) for row in shown])


def step_filter(folder: Folder, unit: Path, step: str) -> Callable[[Answer], bool]:
    """Filter for answers by their first wrong equation (one of `STEP_FILTERS`; empty: any).

    The first call parses all equations of an evaluation; they are cached until its file changes.

    Raises:
        RequestError: no such kind.
    """
    if not step:
        return lambda row: True
    if step not in STEP_FILTERS:
        raise RequestError(f"first wrong equation: {step}", f"one of {', '.join(STEP_FILTERS)}")
    kinds = folder.worked_out.get(unit / PREDICTIONS, lambda: {
        (row.id, row.sample): _kind(row) for row in read_answers(folder, unit)})
    wanted_kinds = WRONG_STEP_KINDS if step == ANY_STEP else (step,)
    return lambda row: kinds.get((row.id, row.sample)) in wanted_kinds


def sample_fates(folder: Folder, unit: Path) -> dict[tuple[str, int], str]:
    """`kept` or why it was left out, by prompt and sample index; empty for an evaluation.

    Applies the recorded rules again. Raises `RecordError` if that is impossible.
    """
    files = [unit / name for name in (PREDICTIONS, SELECTION, EVALUATION_CONFIG)]
    if not (unit / SELECTION).is_file():
        return {}

    def apply() -> dict[tuple[str, int], str]:
        try:
            lines = folder.tail(unit / PREDICTIONS).lines()
            selected = select([list(rows) for _, rows in groupby(lines, itemgetter("id"))],
                              Selection(**folder.object(unit / SELECTION)["selection"]),
                              SampleOrigin.from_config(folder.object(unit / EVALUATION_CONFIG)))
            reasons = {(sample.prompt_id, sample.number): sample.reason for sample in selected.left_out}
            return {key: reasons.get(key, "kept") for line in lines for key in [(line["id"], line["sample"])]}
        except (KeyError, TypeError, ValueError, AttributeError, RequestError) as error:
            raise RecordError(f"these samples cannot be read: {str(error)[:160]}") from error

    return folder.worked_out.get(files, apply, key="fates")


def _kind(row: Answer) -> str:
    return UNSCORED if row.error else kind_of_text(row.completion, right=row.right)


def _result(row: Answer) -> Result:
    if row.error:
        return "error"
    return "right" if row.right else "wrong"


def pair_changes(a: list[Answer], b: list[Answer]) -> dict[Change, list[tuple[Answer, Answer]]]:
    """First samples of common items, by what changed from A to B."""
    # One sample per item: with several no single answer changed.
    second = {row.id: row for row in b if row.sample == 0}
    changes: dict[Change, list[tuple[Answer, Answer]]] = {
        "newly_right": [], "newly_wrong": [], "both_wrong": [], "both_right": []}
    for row in a:
        if row.sample == 0 and row.id in second:
            other = second[row.id]
            if row.right == other.right:
                changes["both_right" if row.right else "both_wrong"].append((row, other))
            else:
                changes["newly_right" if other.right else "newly_wrong"].append((row, other))
    return changes


def pair(a: Answer, b: Answer, change: Change) -> AnswerPair:
    """Two completions with differences marked word by word."""
    # The cost is up to the product of both lengths: truncate long texts, and do not compare longer lists.
    # Without `autojunk=False` difflib ignores frequent tokens, which blanks and digits are here.
    left, right = _TOKEN.findall(a.completion[:20_000]), _TOKEN.findall(b.completion[:20_000])
    a, b = (replace(row, wrong_step=wrong_place(row.completion)) for row in (a, b))
    matcher = difflib.SequenceMatcher(None, left, right, autojunk=False) if len(left) + len(right) < 4_000 else None
    return AnswerPair(id=a.id, section=a.section, prompt=a.prompt, gold=a.gold, change=change, a=a, b=b,
                      a_pieces=_with_mark(_pieces(left, matcher, first=True), a.wrong_step),
                      b_pieces=_with_mark(_pieces(right, matcher, first=False), b.wrong_step))


def _with_mark(pieces: list[AnswerPiece], place: WrongPlace | None) -> list[AnswerPiece]:
    """The pieces, split where the first wrong equation begins and ends."""
    if place is None:
        return pieces
    pieces_out, at = [], 0
    for piece in pieces:
        end = at + len(piece.text)
        for low, high in pairwise(sorted({at, end, *(edge for edge in (place.start, place.end) if at < edge < end)})):
            wrong = place.start <= low and high <= place.end
            pieces_out.append(AnswerPiece(text=piece.text[low - at:high - at], same=piece.same, wrong=wrong,
                                          right_value=place.expected if wrong and high == place.end else ""))
        at = end
    return pieces_out


def _pieces(tokens: list[str], matcher: difflib.SequenceMatcher[str] | None, *, first: bool) -> list[AnswerPiece]:
    if matcher is None:  # too long to compare word by word
        return [AnswerPiece(text="".join(tokens), same=True)]
    pieces = []
    for tag, a_from, a_to, b_from, b_to in matcher.get_opcodes():
        text = "".join(tokens[a_from:a_to] if first else tokens[b_from:b_to])
        if text:
            pieces.append(AnswerPiece(text=text, same=tag == "equal"))
    return pieces
