"""Result of an improvement: accuracy by round, each round compared with the previous one, the last with the first."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from workings.evaluation.comparison.compare import Comparison, compare
from workings.evaluation.comparison.paired import difference_text
from workings.evaluation.unit import read_scorecard
from workings.record import atomic
from workings.record.canonical import loads
from workings.record.layout import SELECTION
from workings.record.manifest import DRAWN_FROM
from workings.record.number_text import percent
from workings.record.reader import RunRecord

RESULT = "rounds.json"
REQUEST = "improve.json"
"""File of the request: a command only continues the same request, or one with more rounds."""


@dataclass(frozen=True, kw_only=True)
class Round:
    """A model of an improvement with its training samples."""

    number: int
    """0: the start."""
    run: Path
    samples: Path | None = None
    """Samples that it was trained on, in addition to the recipe's traces; None for the start."""
    against_before: Comparison | None = None
    """Comparison of this model (B) with that of the previous round (A)."""

    @cached_property
    def overall(self) -> dict[str, Any]:
        """Its greedy accuracy on the held-out items, with its interval."""
        return dict(read_scorecard(self.run)["overall"])

    @property
    def counts(self) -> Mapping[str, Any]:
        """Counts of its samples: questions never, sometimes and always solved; samples kept and trained on."""
        if self.samples is None:
            return {}
        trained = sum(RunRecord.open(self.run).manifest.facts[DRAWN_FROM].values())
        return {**loads((self.samples / SELECTION).read_bytes())["counts"], "learned": trained}

    def to_json(self) -> dict[str, Any]:
        """An entry of `rounds` in `improve --json`."""
        difference = self.against_before.to_json() if self.against_before else {}
        keys = ("delta", "delta_ci_low", "delta_ci_high", "p_value", "verdict")
        return {"round": self.number, "run": str(self.run), "accuracy": self.overall["mean"],
                **({"unit": str(self.samples), **self.counts} if self.samples else {}),
                **{key: difference[key] for key in keys if key in difference}}


@dataclass(frozen=True, kw_only=True)
class ImproveResult:
    """All rounds of an improvement."""

    out: Path
    rounds: tuple[Round, ...]
    stopped: str
    """Why there are fewer rounds than requested; empty if there are as many."""
    seconds: float
    """Seconds of training, sampling and evaluation."""

    @cached_property
    def comparison(self) -> Comparison:
        """Comparison of the last round (B) with the start (A)."""
        # Without rounds the start is compared with itself, and the sentence says so.
        return compare(self.rounds[0].run, self.rounds[-1].run)

    def to_json(self) -> dict[str, Any]:
        """Keys of `improve --json`."""
        compared = self.comparison.to_json()
        return {
            "accuracies": [round_.overall["mean"] for round_ in self.rounds], "verdict": compared["verdict"],
            **{key: compared[key] for key in ("delta", "delta_ci_low", "delta_ci_high", "p_value", "items")
               if key in compared},
            "seconds": round(self.seconds, 1), "runs": [str(round_.run) for round_ in self.rounds],
            "rounds": [round_.to_json() for round_ in self.rounds], "stopped": self.stopped, "sentence": self.sentence}

    @property
    def sentence(self) -> str:
        """The result in one sentence."""
        first, last, difference = self.rounds[0], self.rounds[-1], self.comparison.difference
        if difference is None or len(self.rounds) == 1:
            return f"No round was made: {self.stopped}."
        count = "1 round" if len(self.rounds) == 2 else f"{len(self.rounds) - 1} rounds"
        before, after = percent(first.overall["mean"]), percent(last.overall["mean"])
        took = f"left the model at {after}" if before == after else f"took the model from {before} to {after}"
        text = (f"On {difference.n} held-out items, {count} in {self.seconds:.0f} s {took} right: "
                f"{difference_text(difference, difference.p_value)}")
        return f"{text}." + (f" Stopped: {self.stopped}." if self.stopped else "")

    def text(self, program: str = "workings") -> str:
        """The result, a table, and next commands, in words."""
        heads = ("round", "learned", "never", "sometimes", "always", "right", "change, 95 % interval")
        rows = [heads, *(_row(str(round_.number or "start"), round_.overall, round_.counts, round_.against_before)
                         for round_ in self.rounds)]
        widths = [max(len(row[at]) for row in rows) for at in range(len(heads))]
        table = ["  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True)) for row in rows]
        return "\n".join(["", self.sentence, "", *table, "",
                          "never, sometimes, always: questions by how many of their samples were correct",
                          f"page: {program} ui {self.out}", "", "Try next:",
                          f"  {program} verify {self.out}",
                          *([f"  {program} compare {self.rounds[0].run} {self.rounds[-1].run}"]
                            if len(self.rounds) > 1 else []),
                          *self._further])

    @property
    def _further(self) -> list[str]:
        """Commands that continue from here."""
        last = self.rounds[-1].number
        if not self.stopped:
            return [f"  the same command with --rounds {last + 1}, for one more round"]
        if last and self.stopped.startswith(f"round {last} "):
            return ["  the same command with --all-rounds, to continue after a round that did not help"]
        return ["  a better start (more training.steps, other questions), with another --out"]


def _row(name: str, overall: Mapping[str, Any], counts: Mapping[str, Any],
         comparison: Comparison | None) -> tuple[str, ...]:
    """Cells of one model; the start learned from no samples."""
    difference = comparison.difference if comparison else None
    return (name, *(f"{counts[key]:,}" if key in counts else "" for key in ("learned", "never", "sometimes", "always")),
            percent(overall["mean"]), difference_text(difference, difference.p_value) if difference else "")


def change_text(comparison: Comparison) -> str:
    """The change of a comparison with its interval, in points."""
    values: dict[str, Any] = comparison.to_json()
    if "delta_ci_low" not in values:
        return comparison.sentence
    low, high = 100 * values["delta_ci_low"], 100 * values["delta_ci_high"]
    return f"{100 * values['delta']:+.1f} points, 95 % interval {low:+.1f} to {high:+.1f}"


def write_result(result: ImproveResult) -> None:
    """Writes `rounds.json`, replacing an earlier one."""
    atomic.write_json(result.out / RESULT, result.to_json())
