"""What a gate can watch: the score and what is measured beside it, each with the direction that is better."""

from collections.abc import Sequence

from workings.errors import RequestError
from workings.evaluation.scorecard import ItemResult

HIGHER_IS_BETTER = {"accuracy": True, "format_ok": True, "step_validity": True, "truncated": False, "empty": False,
                    "errors": False, "completion_tokens": False, "reasoning_chars": False}
"""Metrics by name; False: lower is better, and a drop is a rise."""


def check_metric(name: str) -> None:
    """Raise `RequestError` for a metric that does not exist."""
    if name not in HIGHER_IS_BETTER:
        raise RequestError(f"--metric {name}", f"one of {', '.join(HIGHER_IS_BETTER)}")


def metric_value(result: ItemResult, name: str) -> float | None:
    """A metric of one item, or None where it was not measured."""
    if name == "accuracy":
        return result.score
    if name == "errors":
        return float(bool(result.error))
    return result.measures.get(name)


def paired_metric(pairs: Sequence[tuple[ItemResult, ItemResult]],
                  name: str) -> tuple[list[float], list[float], list[str]]:
    """Values of both sides and clusters, over the items on which both sides have the metric.

    Raises:
        RequestError: no item has it on both sides.
    """
    a, b, clusters = [], [], []
    for before, after in pairs:
        x, y = metric_value(before, name), metric_value(after, name)
        if x is not None and y is not None:
            a.append(x)
            b.append(y)
            clusters.append(before.cluster)
    if not a:
        raise RequestError(f"--metric {name}, which was not measured on any item of both sides",
                           f"another of {', '.join(HIGHER_IS_BETTER)}")
    return a, b, clusters
