"""The items of an evaluation, filtered and page by page; and the items of two runs side by side."""

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

ITEMS_A_PAGE = 50
Result = Literal["", "right", "wrong", "error"]
Change = Literal["newly_right", "newly_wrong", "both_wrong", "both_right"]
CHANGES: dict[tuple[bool, bool], Change] = {
    (False, True): "newly_right", (True, False): "newly_wrong", (False, False): "both_wrong",
    (True, True): "both_right"}
"""Whether A and B are right -> what changed."""
RESULT_ORDER: tuple[Result, ...] = ("error", "wrong", "right")
"""Order of the items on a page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One completion of one item."""

    id: str
    sample: int
    section: str
    category: str
    difficulty: str
    prompt: str
    completion: str
    extracted: str
    """The answer that the rule extracted; empty if it found none."""
    gold: str
    rule: str
    right: bool
    error: str = ""
    finish_reason: str = ""
    wrong_step: WrongPlace | None = None
    """Place of the first wrong equation; only set for completions that are shown."""


class ItemsQuery(BaseModel):
    """Which items of a run to show."""

    unit: str = Field(default="", description="Name of the evaluation; empty: `items`, else the first")
    q: str = Field(default="", max_length=500, description="Text to find in the item or its answer")
    result: Result = ""
    section: str = ""
    rule: str = ""
    compact: bool = Field(default=False, description="One line per item, opened by a click")
    page: int = 1


def units_of(run: Path) -> dict[str, Path]:
    """Evaluations of a run by name; of a standalone evaluation, only itself."""
    return {path.name: path for path in unit_paths(run)}


def unit_path(run: Path, name: str) -> Path:
    """Path of the evaluation; without a name, of `items` or the first one. Raises `RequestError`."""
    units = units_of(run)
    if not units or (name and name not in units):
        raise RequestError(f"there is no evaluation {name or 'of this run'}",
                           "one of: " + ", ".join(units) if units else "a run that was evaluated",
                           f"workings eval {run.name} --items ITEMS.jsonl --out {run.name}/eval/items")
    return units[name or (DEFAULT_NAME if DEFAULT_NAME in units else next(iter(units)))]


def read_answers(folder: Folder, unit: Path) -> list[Answer]:
    """All completions of an evaluation. Raises `RecordError` for lines that are not scored predictions."""
    path = unit / PREDICTIONS
    if not path.is_file():
        raise RecordError(f"{path.name} is missing")
    try:
        return folder.cache.get("answers", [path], lambda: [_answer(line) for line in read_lines(path).value])
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
    """A page of the items that pass all filters. Raises `RequestError` if there is no such evaluation or page."""
    path = unit_path(run, query.unit)
    rows = read_answers(folder, path)
    matches = [row for row in rows if _passes(row, query)]
    if not (path / SELECTION).is_file():  # samples stay in the order of their prompts
        matches.sort(key=lambda row: RESULT_ORDER.index(_result(row)))
    shown, pages = paged(matches, query.page, ITEMS_A_PAGE)
    return {"unit": path.name, "units": list(units_of(run)), "total": len(rows), "found": len(matches),
            "page": query.page, "pages": pages, "sections": sorted({row.section for row in rows}),
            "rules": sorted({row.rule for row in rows}), "rows": [with_wrong_step(row) for row in shown]}


def _passes(row: Answer, query: ItemsQuery) -> bool:
    if query.section not in ("", row.section) or query.rule not in ("", row.rule):
        return False
    text = query.q.casefold()
    texts = (row.id, row.prompt, row.completion, row.gold, row.extracted)
    return query.result in ("", _result(row)) and any(text in value.casefold() for value in texts)


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
    """Change from A to B -> the items' answers of both runs, by their first samples; cached until a file changes."""
    records = find_pair(a, b)

    def find() -> dict[Change, list[tuple[Answer, Answer]]]:
        before, after = ({row.id: row for row in read_answers(folder, record.path) if row.sample == 0}
                         for record in records)
        found: dict[Change, list[tuple[Answer, Answer]]] = {change: [] for change in CHANGES.values()}
        for name, row in before.items():
            if name in after:
                found[CHANGES[row.right, after[name].right]].append((row, after[name]))
        return found

    return folder.cache.get("changes", _files(*records), find)


def _files(*records: EvaluationRecord) -> list[Path]:
    names = (EVALUATION_CONFIG, EVALUATION_SUMMARY, PREDICTIONS, SUMS)
    return [record.path / name for record in records for name in names]


def with_wrong_step(row: Answer) -> Answer:
    """The completion with the place of its first wrong equation."""
    return replace(row, wrong_step=wrong_place(row.completion))
