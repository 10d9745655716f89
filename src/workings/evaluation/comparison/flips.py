"""Items that changed from wrong to correct or back, overall and by section."""

from collections.abc import Sequence
from dataclasses import dataclass

from workings.evaluation.comparison.paired import Pairs

TABLE_HEADS = ("Section", "Wrong to correct", "Correct to wrong", "Both right", "Both wrong", "Items")
"""Heads of the table of flips."""
OVERALL_ROW = "overall"


@dataclass(frozen=True, kw_only=True, slots=True)
class Flips:
    """Items of one section by their results in A and B. Correct means a score of exactly 1."""

    section: str
    wrong_to_right: int
    right_to_wrong: int
    both_right: int
    both_wrong: int

    @property
    def items(self) -> int:
        """All of them."""
        return self.wrong_to_right + self.right_to_wrong + self.both_right + self.both_wrong

    def to_json(self) -> dict[str, str | int]:
        """Keys in ``compare --json``."""
        return {"section": self.section, "wrong_to_right": self.wrong_to_right, "right_to_wrong": self.right_to_wrong,
                "both_right": self.both_right, "both_wrong": self.both_wrong, "items": self.items}

    def row(self) -> tuple[str, ...]:
        """Line in the table, as `TABLE_HEADS`."""
        return tuple(str(value) for value in self.to_json().values())


def count_flips(pairs: Pairs) -> list[Flips]:
    """The flips of all items and, with several sections, of each."""
    groups: dict[str, list[tuple[bool, bool]]] = {}
    for a, b in pairs:
        groups.setdefault(a.section, []).append((a.score == 1.0, b.score == 1.0))
    everything = [item for group in groups.values() for item in group]
    sections = sorted(groups.items()) if len(groups) > 1 else []
    return [_count(name, group) for name, group in [(OVERALL_ROW, everything), *sections]]


def flips_text(flips: Sequence[Flips]) -> list[str]:
    """The table for the terminal."""
    rows = [[head.lower() for head in TABLE_HEADS], *(flip.row() for flip in flips)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(TABLE_HEADS))]
    return ["  " + "  ".join(f"{cell:<{width}}" if not column else f"{cell:>{width}}"
                             for column, (cell, width) in enumerate(zip(row, widths, strict=True))) for row in rows]


def _count(section: str, pairs: Sequence[tuple[bool, bool]]) -> Flips:
    return Flips(section=section, wrong_to_right=pairs.count((False, True)), right_to_wrong=pairs.count((True, False)),
                 both_right=pairs.count((True, True)), both_wrong=pairs.count((False, False)))
