"""Mark the first wrong equation in a completion; draw where the reasoning of runs breaks."""

from collections.abc import Sequence

from markupsafe import Markup

from workings.evaluation.first_wrong_step import KINDS, WRONG_STEP_KINDS, FirstWrongSteps, wrong_place
from workings.record.number_text import percent
from workings.reports.figures import Drawn, Table, bounds, interval_figure, interval_mark, key_entry
from workings.reports.interval_chart import IntervalRow

CAPTION = ("Items by the line of the first wrong equation in their reasoning, with 95 % intervals, for the "
           "first sample of each item. This finds wrong arithmetic, not misunderstandings: of 590 wrong solutions "
           "(MR-GSM8K, labelled by people), 22 % are marked, and 76 % of the marks are the labelled first error.")


def marked(completion: str) -> Markup:
    """A completion as HTML, its first wrong equation underlined and with the right value next to it."""
    wrong_step = wrong_place(completion)
    if wrong_step is None:
        return Markup("{}").format(completion)
    return Markup('{}<span class="wrong-step">{}</span>{}{}').format(
        completion[:wrong_step.start], completion[wrong_step.start:wrong_step.end], right_value(wrong_step.expected),
        completion[wrong_step.end:])


def right_value(expected: str) -> Markup:
    """The correct value next to a wrong step; the hidden words are for screen readers."""
    return Markup('<span class="right-value"><span class="hidden"> (this equation is wrong; correct: </span>{}'
                  '<span class="hidden">) </span></span>').format(expected)


def first_wrong_steps_figure(named: Sequence[tuple[str, int, FirstWrongSteps]]) -> Drawn | None:
    """Shares of the items of each run by their first wrong equation; None if no completion has an equation to check.

    Args:
        named: name, colour and counts of each run, the one before training first.
    """
    # In a fixed order, so that two figures can be compared.
    shown = [kind for kind in KINDS if any(kind in breaks.kinds for _, _, breaks in named)]
    if not any(kind in WRONG_STEP_KINDS for kind in shown):
        return None
    rows, table = [], []
    for kind in shown:
        marks = []
        for name, color, breaks in named:
            share, interval = breaks.share(kind)
            marks.append(interval_mark(share, interval, color))
            table.append([kind, name, str(breaks.kinds.get(kind, 0)), percent(share), bounds(interval)])
        rows.append(IntervalRow(name=kind, marks=marks))
    heads = ["First wrong equation", "Run", "Items", "Share", "95 % interval"]
    title = "Items by their first wrong equation"
    return interval_figure(title, rows, Table(caption=title, heads=heads, rows=table), "items, %",
                           description="; ".join(f"{row[1]}, {row[0]}: {row[2]} items, {row[3]}" for row in table),
                           key=[key_entry(name, color, "mark") for name, color, _ in named])
