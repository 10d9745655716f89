"""Units of samples: what became of every sample is worked out once, texts are read when they are shown."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from workings.errors import RecordError, RequestError
from workings.evaluation.predictions import MAX_PREDICTIONS_BYTES
from workings.record.canonical import loads, read_json
from workings.record.layout import EVALUATION_CONFIG, PREDICTIONS, SELECTION
from workings.record.untrusted_files import open_plain
from workings.samples.candidates import RIGHT, SampleOrigin
from workings.samples.pairs import PairRule, make_pairs
from workings.samples.selection import Counts, Selection, select
from workings.ui.file_cache import FileCache

KEPT_UNITS = 8
KEPT_OUTCOME = "kept"
"""Outcome of a sample that was not left out."""
Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptOutline:
    """A prompt of a unit without its texts."""

    id: str
    place: int
    """Offset of its lines in the file, in bytes."""
    right: int
    """Number of its right samples."""
    fates: tuple[str, ...]
    """Outcome of each sample: `KEPT_OUTCOME`, or why it was left out."""
    pairs: int
    """Preference pairs that were made of its samples."""

    @property
    def solved(self) -> str:
        """`never`, `sometimes` or `always`."""
        return "never" if not self.right else "always" if self.right == len(self.fates) else "sometimes"


@dataclass(frozen=True, kw_only=True)
class UnitOutline:
    """A unit of samples without its texts."""

    config: Row
    """Content of ``eval_config.json``."""
    selection: Selection
    pair_rule: PairRule | None
    """None: no pairs were asked for."""
    prompts: tuple[PromptOutline, ...]
    """Prompts in the file's order."""
    counts: Counts
    """Worked out again from the predictions."""
    recorded: Row
    """The counts that its record names."""

    @property
    def pairs(self) -> int:
        """Pairs that were made of all prompts."""
        return sum(prompt.pairs for prompt in self.prompts)

    @property
    def agrees(self) -> bool:
        """Whether the record names the counts that come of its predictions."""
        return self.counts.to_json() == self.recorded


@dataclass(frozen=True)
class SampleReader:
    """Reads a unit's predictions once from end to end, and then only the prompts that are shown."""

    _outlines: FileCache = field(default_factory=lambda: FileCache(KEPT_UNITS))

    def outline(self, unit: Path) -> UnitOutline:
        """Outcomes of all samples. Raises `RecordError`."""
        return self._outlines.get(unit / PREDICTIONS, lambda: sample_outline(unit))

    def rows(self, unit: Path, prompt: PromptOutline) -> list[Row]:
        """A prompt's lines. Raises `RecordError`."""
        with _opened(unit) as file:
            file.seek(prompt.place)
            # Reads up to the first line of the next prompt, so that no length need be kept.
            return next(_prompts(file))[1]


def _opened(unit: Path) -> BinaryIO:
    return open_plain(unit / PREDICTIONS, MAX_PREDICTIONS_BYTES)


def _prompts(file: BinaryIO) -> Iterator[tuple[int, list[Row]]]:
    """Offset of each prompt and its lines, from the current position of the file on."""
    begin = end = file.tell()
    rows: list[Row] = []
    for line in file:
        row = loads(line)
        if not isinstance(row, dict) or not isinstance(row.get("id"), str):
            raise RecordError(f"{PREDICTIONS} has a line that is not a scored prediction")
        # The samples of a prompt are together, so memory holds one prompt's texts and not the file's.
        if rows and rows[0]["id"] != row["id"]:
            yield begin, rows
            begin, rows = end, []
        rows.append(row)
        # Counted instead of `tell`, which text and buffered files answer slowly or not at all while they are iterated.
        end += len(line)
    if rows:
        yield begin, rows


def sample_outline(unit: Path) -> UnitOutline:
    """Where each prompt of a unit begins, and the fate of its samples."""
    try:
        config, record = (read_json(unit / name) for name in (EVALUATION_CONFIG, SELECTION))
        origin, selection = SampleOrigin.from_config(config), Selection(**record["selection"])
        pairs_config = record["pairs"]
        rule = None if "absent" in pairs_config else PairRule(rule=pairs_config["rule"],
                                                              most_per_prompt=pairs_config["most_per_prompt"])
        outlines: list[tuple[int, str, list[int], int, int]] = []

        def noted(file: BinaryIO) -> Iterator[list[Row]]:
            # One pass for both: places are noted while `select` reads on.
            for offset, rows in _prompts(file):
                outlines.append((offset, rows[0]["id"], [row["sample"] for row in rows],
                                    sum(row["score"] == RIGHT for row in rows),
                                    len(make_pairs([rows], rule, origin)) if rule else 0))
                yield rows

        with _opened(unit) as file:
            # The rules are applied again, so the page shows what follows from the predictions, regardless of the record
            # says.
            selected = select(noted(file), selection, origin)
    except (OSError, KeyError, TypeError, ValueError, RequestError) as error:
        reason = error.given if isinstance(error, RequestError) else type(error).__name__
        raise RecordError(f"these samples cannot be read: {reason[:160]}") from error
    reasons = {(sample.prompt_id, sample.number): sample.reason for sample in selected.left_out}
    prompts = tuple(PromptOutline(id=name, place=place, right=right, pairs=pairs,
                                  fates=tuple(reasons.get((name, number), KEPT_OUTCOME) for number in numbers))
                    for place, name, numbers, right, pairs in outlines)
    return UnitOutline(config=config, selection=selection, pair_rule=rule, prompts=prompts, counts=selected.counts,
                       recorded=record["counts"])
