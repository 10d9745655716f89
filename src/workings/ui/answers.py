"""Search, filter and page the items of an evaluation or a unit of samples; compare two evaluations."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field

from workings.errors import RecordError, RequestError
from workings.evaluation.comparison.compare import Comparison, compare_records
from workings.evaluation.first_wrong_step import WrongPlace, count_first_wrong_steps, wrong_place
from workings.evaluation.unit import DEFAULT_NAME, EvaluationRecord, find_pair, unit_paths
from workings.record.layout import EVALUATION_CONFIG, EVALUATION_SUMMARY, PREDICTIONS, SELECTION, SUMS
from workings.ui.folder import Folder, read_lines
from workings.ui.requests import paged

# More would be slow to render: each row holds a whole prompt and a whole completion.
ITEMS_A_PAGE = 50
Result = Literal["", "right", "wrong", "error"]
Change = Literal["newly_right", "newly_wrong", "both_wrong", "both_right"]
CHANGES: dict[tuple[bool, bool], Change] = {
    (False, True): "newly_right", (True, False): "newly_wrong", (False, False): "both_wrong",
    (True, True): "both_right"}
"""Whether A and B are right -> what changed."""
RESULT_ORDER: tuple[Result, ...] = ("error", "wrong", "right")
"""Order of the items on a page: what needs a look comes first."""


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
    extracted: str
    """The answer that the rule extracted; empty: none."""
    gold: str
    rule: str
    right: bool
    error: str = ""
    finish_reason: str = ""
    wrong_step: WrongPlace | None = None
    """The first step that is wrong; worked out for what is shown."""


class ItemsQuery(BaseModel):
    """An evaluation of a run, filters of its items, and a page."""

    unit: str = Field(default="", description="Name of the evaluation; empty: `items`, else the first")
    q: str = Field(default="", max_length=500, description="Text to find in the item or its answer")
    result: Result = ""
    section: str = ""
    rule: str = ""
    compact: bool = Field(default=False, description="One line per item, opened by a click")
    page: int = 1


def units_of(run: Path) -> dict[str, Path]:
    """Evaluations of a run by name; a standalone evaluation contains itself only."""
    return {path.name: path for path in unit_paths(run)}


def unit_path(run: Path, name: str) -> tuple[str, Path]:
    """The requested evaluation: by name, else the one called `items`, else the first; or raises `RequestError`."""
    units = units_of(run)
    if not units or (name and name not in units):
        raise RequestError(f"there is no evaluation {name or 'of this run'}",
                           "one of: " + ", ".join(units) if units else "a run that was evaluated",
                           f"workings eval {run.name} --items ITEMS.jsonl --out {run.name}/eval/items")
    chosen = name or (DEFAULT_NAME if DEFAULT_NAME in units else next(iter(units)))
    return chosen, units[chosen]


def read_answers(folder: Folder, unit: Path) -> list[Answer]:
    """All completions of an evaluation. Raises `RecordError` for lines that are not scored predictions."""
    path = unit / PREDICTIONS
    if not path.is_file():
        raise RecordError(f"{path.name} is missing")
    try:
        return folder.cache.get("answers", [path], lambda: [_answer(line) for line in read_lines(path)[1]])
    # All lines or none: a page with some of the items would show a wrong accuracy.
    except (KeyError, TypeError, ValueError) as error:
        raise RecordError(f"{path.name} has a line that is not a scored prediction") from error


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


def search(folder: Folder, run: Path, query: ItemsQuery) -> dict[str, Any]:
    """A page of the items that pass all filters; the text is searched in all texts of an item and its answer.

    Raises `RequestError` if there is no such evaluation or page.
    """
    name, path = unit_path(run, query.unit)
    rows = read_answers(folder, path)
    text = query.q.casefold()
    matches = [row for row in rows
               if (not query.section or row.section == query.section) and (not query.rule or row.rule == query.rule)
               and (not query.result or _result(row) == query.result)
               and any(text in value.casefold() for value in
                       (row.id, row.prompt, row.completion, row.gold, row.extracted))]
    if not (path / SELECTION).is_file():  # samples are read in the order of their prompts
        matches.sort(key=lambda row: RESULT_ORDER.index(_result(row)))
    # Only on the shown page, because parsing all equations takes seconds.
    shown, pages = paged(matches, query.page, ITEMS_A_PAGE)
    return {"unit": name, "units": list(units_of(run)), "total": len(rows), "found": len(matches), "page": query.page,
            "pages": pages, "sections": sorted({row.section for row in rows}),
            "rules": sorted({row.rule for row in rows}), "rows": [with_wrong_step(row) for row in shown]}


def _result(row: Answer) -> Result:
    if row.error:
        return "error"
    return "right" if row.right else "wrong"


def compared(folder: Folder, a: Path, b: Path) -> Comparison:
    """The comparison of two runs, cached until a file changes."""
    records = find_pair(a, b)
    return folder.cache.get("comparison", _files(*records), lambda: compare_records(*records))


def wrong_steps(folder: Folder, evaluation: EvaluationRecord) -> dict[str, int]:
    """`count_first_wrong_steps`, cached until a file changes."""
    return folder.cache.get("wrong steps", _files(evaluation), lambda: count_first_wrong_steps(evaluation))


def changes(folder: Folder, a: Path, b: Path) -> dict[Change, list[tuple[Answer, Answer]]]:
    """First samples of items of both runs, by what changed from A to B."""
    records = find_pair(a, b)

    def find() -> dict[Change, list[tuple[Answer, Answer]]]:
        # One sample per item: with several no single answer changed.
        before, after = ({row.id: row for row in read_answers(folder, record.path) if row.sample == 0}
                         for record in records)
        found: dict[Change, list[tuple[Answer, Answer]]] = {change: [] for change in CHANGES.values()}
        for name in (name for name in before if name in after):  # in A's order
            found[CHANGES[before[name].right, after[name].right]].append((before[name], after[name]))
        return found

    return folder.cache.get("changes", _files(*records), find)


def _files(*records: EvaluationRecord) -> list[Path]:
    names = (EVALUATION_CONFIG, EVALUATION_SUMMARY, PREDICTIONS, SUMS)
    return [record.path / name for record in records for name in names]


def with_wrong_step(row: Answer) -> Answer:
    """A completion with its first wrong step."""
    return replace(row, wrong_step=wrong_place(row.completion))


def pair(a: Answer, b: Answer, change: Change) -> dict[str, Any]:
    """One item answered by two runs."""
    return {"id": a.id, "section": a.section, "prompt": a.prompt, "gold": a.gold, "change": change,
            "a": with_wrong_step(a), "b": with_wrong_step(b)}
