"""What a comparison says in tables: the items that flipped, and pass@k."""

from workings.evaluation.comparison.compare import Comparison
from workings.evaluation.comparison.flips import HEADS
from workings.reports.figures import Table


def flips_table(comparison: Comparison | None) -> Table | None:
    """Items by what changed from A to B, in all and by section; None without a comparison."""
    if comparison is None or not comparison.flips:
        return None
    return Table(caption="Items by what changed", heads=list(HEADS),
                 rows=[list(flip.row()) for flip in comparison.flips])


def pass_table(comparison: Comparison | None) -> Table | None:
    """pass@k of both sides and the difference; None where one sample an item was drawn."""
    if comparison is None or not comparison.pass_at_k:
        return None
    return Table(caption="Any of k samples right", heads=["k", comparison.name_a, comparison.name_b, "difference"],
                 rows=[list(rate.row()) for rate in comparison.pass_at_k])
