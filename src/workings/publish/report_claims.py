"""Sources of the numbers of a report page in the values of the pack: the sentence, the tiles and the tables."""

import html
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from workings.errors import RecordError
from workings.evidence.claims import Claim, ClaimSource, agrees, numbers_in, pointer_to, resolve
from workings.evidence.pack.form import COMPARISON, REPORT
from workings.record.layout import EVALUATION_CONFIG, EVALUATION_SUMMARY, MANIFEST, MEASURED, METRICS
from workings.record.number_text import small_p
from workings.reports.run_table import MEASURES

# The confidence level stands in every interval's text and is not a result.
CONFIDENCE_TEXT = "95"
# In the order in which the sentence says them: numbers are matched with values from left to right.
_SENTENCE = ("b/accuracy", "b/ci_low", "b/ci_high", "a/accuracy", "a/ci_low", "a/ci_high", "items", "delta",
             "delta_ci_low", "delta_ci_high", "p_value", "items", "minimum_detectable_effect")
_TILES = (("a/accuracy", "a/ci_low", "a/ci_high"), ("b/accuracy", "b/ci_low", "b/ci_high"),
          ("delta", "delta_ci_low", "delta_ci_high"), ("items", "newly_right", "newly_wrong", "p_value"))
_FACTS = {
    "Steps": ("completed_steps", "planned_steps"), "Rows a step": ("global_batch",),
    "Supervised tokens": ("supervised_tokens",), "Tokens": ("tokens",), "Final training loss": ("final_loss",),
    "Seed": ("seed",), "Memory a device, planned": ("facts/predicted_peak_bytes",),
    "Memory a device, measured by it": ("measured_peak_bytes",),
    "Resident memory of the process": ("measured_peak_bytes",), "Model": ("parameters",),
    "Engine and device": ("actual_device/count",), "Seconds in steps": ("training_seconds",),
}
"""Rows of the table of runs, and the manifest's values that their numbers are."""
_MEMORY = {"Memory taken by the run": ("growth_bytes",)}
"""Values of the run's measured memory, which on a CPU has the growth of the process."""
_BYTES = ("KiB", "MiB", "GiB")


@dataclass(frozen=True, kw_only=True)
class Column:
    """One run (or evaluation) of a page."""

    name: str
    place: str
    """Path in the pack."""
    manifest: dict[str, Any] = field(default_factory=dict)
    """Empty for an evaluation that stands alone."""
    steps: Sequence[dict[str, Any]] = ()
    """Lines of its metrics."""
    memory: dict[str, Any] = field(default_factory=dict)
    """Contents of its `plan/measured.json`; empty without that file."""
    evaluation: str = ""
    """Place of the evaluation that is shown; empty for none."""
    summary: dict[str, Any] = field(default_factory=dict)
    asked: dict[str, Any] = field(default_factory=dict)
    """Configuration of the shown evaluation: contents of its `eval_config.json`."""


Cell = tuple[int, str]
"""Offset in the page, and text."""
Row = list[Cell]


def report_claims(page: str, sentence: str, comparison: dict[str, Any], columns: Sequence[Column]) -> list[Claim]:
    """Claims of a report page.

    Args:
        page: its HTML.
        sentence: of the comparison; empty where there is none.
        comparison: contents of the pack's `compare.json`; empty where there is none.
        columns: the runs, in the page's order.
    """
    candidates = [*_lead(page, sentence, comparison), *_tiles(page, comparison), *_decoding(page, columns)]
    for heads, rows in _tables(page):
        for words, claims in _TABLES.items():
            if heads[:len(words)] == list(words):
                candidates += [claim for row in rows for claim in claims(heads, row, comparison, columns)]
    # One claim a place: a step's number stands in the first column for every run of its row.
    claims_by_position: dict[int, Claim] = {}
    for claim in candidates:
        if claim is not None:
            claims_by_position.setdefault(claim.at, claim)
    return list(claims_by_position.values())


def _lead(page: str, sentence: str, comparison: dict[str, Any]) -> Iterator[Claim | None]:
    opening = '<p class="lead">'
    start = page.find(opening)
    text = page[start + len(opening):page.find("</p>", start)]
    # Compared with what the page should say: a changed wording gets no claims instead of wrong ones.
    if sentence and start >= 0 and html.unescape(text).replace("\u00a0", " ") == small_p(sentence, " "):
        yield from _row((start + len(opening), text), [f"/{pointer}" for pointer in _SENTENCE], COMPARISON, comparison)


def _tiles(page: str, comparison: dict[str, Any]) -> Iterator[Claim | None]:
    tiles = re.finditer(r'<div class="number"><span class="name">[^<]*</span><b>(.*?</span>)</div>', page)
    # Not strict: a page without a comparison has no tiles.
    for tile, pointers in zip(tiles, _TILES, strict=False):
        yield from _row((tile.start(1), tile.group(1)), [f"/{pointer}" for pointer in pointers], COMPARISON, comparison)


def _decoding(page: str, columns: Sequence[Column]) -> Iterator[Claim | None]:
    """Decoding of both sides; equal values are those of the first one."""
    sentence = re.search(r"<p>Equal in both evaluations: (.*?)</p>", page)
    column = next((column for column in columns if column.evaluation), None)
    if sentence and column:
        for setting in re.finditer(r"decoding: (\w+): ([^;<]*)", sentence.group(1)):
            yield from _row((sentence.start(1) + setting.start(2), setting.group(2)),
                            [pointer_to("decoding", setting.group(1))], f"{column.evaluation}/{EVALUATION_CONFIG}",
                            column.asked)


def _tables(page: str) -> Iterator[tuple[list[str], list[Row]]]:
    """Heads and rows of every table."""
    for table in re.finditer(r"<table>.*?</table>", page, re.DOTALL):
        heads, rows = list[str](), list[Row]()
        for row in re.finditer(r"<tr>.*?</tr>", table.group(0), re.DOTALL):
            # Offsets in the whole page, because a claim says where in the document its number stands.
            cells = [(table.start() + row.start() + cell.start(1), cell.group(1))
                     for cell in re.finditer(r"<t[hd][^>]*>(.*?)</t[hd]>", row.group(0), re.DOTALL)]
            if heads:
                rows.append(cells)
            else:
                heads = [html.unescape(re.sub(r"<[^<>]*>", "", text)).strip() for _, text in cells]
        yield heads, rows


def _accuracy(heads: list[str], row: Row, comparison: dict[str, Any],
              columns: Sequence[Column]) -> Iterator[Claim | None]:
    section, run = (html.unescape(text) for _, text in row[:2])
    column = next((column for column in columns if column.name == run and column.evaluation), None)
    if column is None:
        return
    cell = ("scorecard", "overall") if section == "overall" else ("scorecard", "per_section", section)
    source = f"{column.evaluation}/{EVALUATION_SUMMARY}"
    keys = (("n",), ("correct",), ("mean",), ("ci_low", "ci_high"), ("errors",))
    for (at, text), names in zip(row[2:], keys, strict=False):
        yield from _row((at, text), [pointer_to(*cell, name) for name in names], source, column.summary)


def _difference(heads: list[str], row: Row, comparison: dict[str, Any],
                columns: Sequence[Column]) -> Iterator[Claim | None]:
    section = html.unescape(row[0][1])
    names = [part.get("section") for part in comparison.get("sections", [])]
    if section != "overall" and section not in names:
        return
    # The page shows a section's adjusted p value where there is one.
    base = "" if section == "overall" else f"/sections/{names.index(section)}"
    p_value = "p_value_holm" if base and "p_value_holm" in comparison["sections"][names.index(section)] else "p_value"
    for (at, text), keys in zip(row[1:], (("items",), ("delta",), ("delta_ci_low", "delta_ci_high"), (p_value,),
                                          ("newly_right",), ("newly_wrong",)), strict=False):
        yield from _row((at, text), [f"{base}/{key}" for key in keys], COMPARISON, comparison)


def _flips(heads: list[str], row: Row, comparison: dict[str, Any], columns: Sequence[Column]) -> Iterator[Claim | None]:
    flips = comparison.get("flips", [])
    index = next((at for at, flip in enumerate(flips) if flip["section"] == html.unescape(row[0][1])), None)
    for cell, key in zip(row[1:], ("wrong_to_right", "right_to_wrong", "both_right", "both_wrong", "items"),
                         strict=False):
        if index is not None:
            yield from _row(cell, [f"/flips/{index}/{key}"], COMPARISON, comparison)


def _pass_at_k(heads: list[str], row: Row, comparison: dict[str, Any],
               columns: Sequence[Column]) -> Iterator[Claim | None]:
    rows = comparison.get("pass_at_k", [])
    index = next((at for at, entry in enumerate(rows) if str(entry["k"]) == row[0][1]), None)
    for cell, keys in zip(row, (("k",), ("a/mean", "a/ci_low", "a/ci_high"), ("b/mean", "b/ci_low", "b/ci_high"),
                                ("delta", "delta_ci_low", "delta_ci_high", "p_value")), strict=False):
        if index is not None:
            yield from _row(cell, [f"/pass_at_k/{index}/{key}" for key in keys], COMPARISON, comparison)


def _losses(heads: list[str], row: Row, comparison: dict[str, Any],
            columns: Sequence[Column]) -> Iterator[Claim | None]:
    step = row[0][1].replace("\u202f", "")
    for (at, text), name in zip(row[1:], heads[1:], strict=False):
        column = next((column for column in columns if column.name == name), None)
        # Steps are the lines of the log, counted from 1.
        if column is None or not step.isdigit() or not 0 < int(step) <= len(column.steps):
            continue
        line, source = column.steps[int(step) - 1], f"{column.place}/{METRICS}"
        yield from _row(row[0], ["/step"], source, line, int(step))
        for key in ("loss", "evaluation_loss"):
            if key in line:
                yield from _row((at, text), [f"/{key}"], source, line, int(step))


def _behaviour(heads: list[str], row: Row, comparison: dict[str, Any],
               columns: Sequence[Column]) -> Iterator[Claim | None]:
    measure = next((name for name, words, _ in MEASURES if words == html.unescape(row[0][1])), "")
    for cell, column in zip(row[1:], [column for column in columns if column.evaluation], strict=False):
        source = f"{column.evaluation}/{EVALUATION_SUMMARY}"
        if measure:
            yield from _row(cell, [pointer_to("behaviour", measure, key) for key in ("mean", "ci_low", "ci_high", "n")],
                            source, column.summary)
        else:
            rules = column.summary.get("rules", {})
            yield from _row(cell, [pointer_to("rules", rule) for rule in rules], source, column.summary)


def _facts(heads: list[str], row: Row, comparison: dict[str, Any], columns: Sequence[Column]) -> Iterator[Claim | None]:
    words = html.unescape(row[0][1])
    for cell, column in zip(row[1:], columns, strict=False):
        for facts, file, value in ((_FACTS, MANIFEST, column.manifest), (_MEMORY, MEASURED, column.memory)):
            yield from _row(cell, [f"/{key}" for key in facts.get(words, ())], f"{column.place}/{file}", value)


def _recipe(heads: list[str], row: Row, comparison: dict[str, Any],
            columns: Sequence[Column]) -> Iterator[Claim | None]:
    key = html.unescape(re.sub(r"<[^<>]*>", "", row[0][1]))
    runs = [column for column in columns if column.manifest]
    for number, (at, text) in enumerate(row[1:]):
        if number < len(runs):
            pointer = pointer_to("config_snapshot", *key.split("."))
            # A list is shown with commas, so each of its values gets a pointer of its own.
            yield from _row((at, text), [pointer, *(f"{pointer}/{index}" for index in range(text.count(",") + 1))],
                            f"{runs[number].place}/{MANIFEST}", runs[number].manifest)


_TABLES: dict[tuple[str, ...], Callable[[list[str], Row, dict[str, Any], Sequence[Column]], Iterator[Claim | None]]] = {
    ("Section", "Run"): _accuracy, ("Section", "Items"): _difference, ("Section", "Wrong to right"): _flips,
    ("k",): _pass_at_k, ("Step",): _losses, ("Measure",): _behaviour, ("",): _facts, ("Recipe key",): _recipe}
"""Tables by their first heads."""


def _row(cell: Cell, pointers: Sequence[str], file: str, value: Any, line: int = 0) -> Iterator[Claim | None]:
    """A claim for each number of a text that is one of these values, in their order."""
    start, text = cell
    waiting = list(pointers)
    for at, number in numbers_in(text):
        if number == CONFIDENCE_TEXT and f"{CONFIDENCE_TEXT} % interval" in text.replace("\u00a0", " "):
            continue
        unit = _unit(text[:at], text[at + len(number):])
        for index, pointer in enumerate(waiting):
            if (claim := _claim(start + at, number, unit, pointer, file, value, line)) is not None:
                yield claim
                # Values before the one that fitted are passed over: two equal numbers then get two different sources.
                del waiting[:index + 1]
                break


def _unit(before: str, after: str) -> str:
    """The unit that the text around a number says; empty if it says none."""
    if html.unescape(before).replace("\u00a0", " ").endswith("p < "):
        return "below"
    return next((unit for unit in _BYTES if after.startswith(f" {unit}")), "")


def _claim(at: int, number: str, unit: str, pointer: str, file: str, value: Any, line: int) -> Claim | None:
    """The claim; None if the number is not this value."""
    mantissa = number.partition("e")[0]
    digits = len(mantissa.rpartition(".")[2]) if "." in mantissa else 0
    try:
        value_there = resolve(value, pointer)
    except RecordError:
        return None
    # A unit that the text says decides; without one, number, percent and points are tried in this order.
    for candidate in (unit,) if unit else ("number", "percent", "points"):
        if agrees(number, value_there, candidate, digits):
            return Claim(document=REPORT, at=at, text=number, unit=candidate, digits=digits,
                         source=ClaimSource(file=file, pointer=pointer, line=line))
    return None
