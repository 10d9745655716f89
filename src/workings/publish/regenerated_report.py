"""Renders the report page of a pack again from its records."""

import contextlib
from collections.abc import Sequence
from itertools import permutations
from pathlib import Path

from workings.evaluation.comparison.compare import compare
from workings.reports.html import render_report, report_views


def is_drawn_again(page: bytes, pack: Path, unit_paths: Sequence[str], compared: Sequence[str]) -> bool:
    """Whether this version draws the same page, in some order in which the records can have been given.

    Args:
        page: the recorded one.
        pack: a folder with an unpacked pack; the working folder meanwhile, so no thread may run next to this.
        unit_paths: runs, and evaluations that are standalone, seen from the pack.
        compared: the two evaluations of its comparison, A before B; empty without one.

    Raises:
        RequestError: a record without what the page shows.
        RecordError: one that cannot be read.
    """
    with contextlib.chdir(pack):
        comparison = compare(*map(Path, compared)) if compared else None
        # A and B are first regardless of the order; only that of further runs is not recorded.
        sides = [unit_path for unit_path in unit_paths if any(f"{side}/".startswith(f"{unit_path}/")
                                                              for side in compared)]
        # At most 24 orders: a pack of more than four records has no page.
        for others in permutations(unit_path for unit_path in unit_paths if unit_path not in sides):
            views = report_views([Path(unit_path) for unit_path in (*sides, *others)], comparison)
            if render_report(views, comparison, recorded_only=True).encode("utf-8") == page:
                return True
    return False
