"""Result of an improvement: accuracy by round, each round compared with the previous one, the last with the first."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from workings.config.explain import short_repr
from workings.errors import RequestError
from workings.evaluation.comparison.compare import Comparison, compare
from workings.evaluation.comparison.paired import difference_text
from workings.evaluation.unit import read_scorecard
from workings.record import atomic
from workings.record.canonical import loads, read_json_object
from workings.record.digest import file_digest
from workings.record.layout import EVALUATION_CONFIG, SELECTION
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
    """Seconds of training, sampling and evaluation, without the control."""
    control: Path | None
    """The run that was trained on the recipe's own traces for as long; None without a control."""

    @cached_property
    def comparison(self) -> Comparison:
        """Comparison of the last round (B) with the start (A)."""
        # Without rounds the start is compared with itself, and the sentence says so.
        return compare(self.rounds[0].run, self.rounds[-1].run)

    @cached_property
    def against_control(self) -> Comparison | None:
        """Comparison of the last round (B) with the control (A)."""
        return None if self.control is None else compare(self.control, self.rounds[-1].run)

    def to_json(self) -> dict[str, Any]:
        """Keys of `improve --json`."""
        compared = self.comparison.to_json()
        values: dict[str, Any] = {
            "accuracies": [round_.overall["mean"] for round_ in self.rounds], "verdict": compared["verdict"],
            **{key: compared[key] for key in ("delta", "delta_ci_low", "delta_ci_high", "p_value", "items")
               if key in compared},
            "seconds": round(self.seconds, 1), "runs": [str(round_.run) for round_ in self.rounds],
            "rounds": [round_.to_json() for round_ in self.rounds], "stopped": self.stopped, "sentence": self.sentence}
        if self.control is not None and self.against_control is not None:
            values |= {"control": str(self.control),
                       "control_accuracy": read_scorecard(self.control)["overall"]["mean"],
                       "control_seconds": round(RunRecord.open(self.control).manifest.training_seconds, 1),
                       "verdict_against_control": self.against_control.verdict}
        return values

    @property
    def sentence(self) -> str:
        """The result in one sentence."""
        first, last, difference = self.rounds[0], self.rounds[-1], self.comparison.difference
        if difference is None or len(self.rounds) == 1:
            return f"No round was made: {self.stopped}."
        count = "1 round" if len(self.rounds) == 2 else f"{len(self.rounds) - 1} rounds"
        before, after = percent(first.overall["mean"]), percent(last.overall["mean"])
        took = f"left the model at {after}" if before == after else f"took the model from {before} to {after}"
        # From the recorded tenths, from which verification regenerates the sentence.
        text = (f"On {difference.n} held-out items, {count} in {round(self.seconds, 1):.0f} s {took} right: "
                f"{difference_text(difference, difference.p_value)}")
        if self.control is not None:
            accuracy = read_scorecard(self.control)["overall"]["mean"]
            text += f"; the same traces for the same time reached {percent(accuracy)}"
        return f"{text}." + (f" Stopped: {self.stopped}." if self.stopped else "")

    def text(self, program: str = "workings") -> str:
        """The result, a table, and next commands, in words."""
        heads = ("round", "learned", "never", "sometimes", "always", "right", "change, 95 % interval")
        rows = [heads, *(_row(str(round_.number or "start"), round_.overall, round_.counts, round_.against_before)
                         for round_ in self.rounds)]
        if self.control is not None:
            rows.append(_row("control", dict(read_scorecard(self.control)["overall"]), {}, None))
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
    """Cells of one model; the start and the control learned from no samples."""
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


def contradictions(folder: Path) -> list[str]:
    """Contradictions between an improvement's result and request and its runs and samples; empty if none.

    Raises `RecordError` for runs or samples that cannot be read.
    """
    recorded, request = (read_json_object(folder / name) for name in (RESULT, REQUEST))
    try:
        result = _made_again(folder, recorded)
        ours = result.to_json()
        problems = [f"{key}: {short_repr(recorded.get(key))}, the runs and samples give {short_repr(value)}"
                    for key, value in ours.items() if _without_folders(recorded.get(key)) != _without_folders(value)]
        problems += [f"{key}: a key that `workings improve` does not write" for key in recorded if key not in ours]
        problems += _request_problems(folder, request, result)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RequestError) as error:
        return [f"not what `workings improve` writes ({type(error).__name__}: {str(error)[:120]})"]
    return problems


def _made_again(folder: Path, recorded: Mapping[str, Any]) -> ImproveResult:
    """The result of the rounds in a folder; their duration and which are left out are self-reported."""
    rounds: list[Round] = []
    # Only the number comes from the record; everything else from the runs.
    for number in range(len(recorded["rounds"])):
        run = folder / "runs" / f"round_{number}"
        samples = folder / "samples" / f"for_round_{number}" if number else None
        rounds.append(Round(number=number, run=run, samples=samples,
                            against_before=compare(rounds[-1].run, run) if number else None))
    stopped, last = str(recorded["stopped"]), rounds[-1]
    if last.against_before is not None and stopped.startswith(f"round {last.number} did not help"):
        stopped = f"round {last.number} did not help: {change_text(last.against_before)}"
    control = folder / "runs" / Path(str(recorded["control"])).name if "control" in recorded else None
    return ImproveResult(out=folder, rounds=tuple(rounds), stopped=stopped, seconds=float(recorded["seconds"]),
                         control=control)


def _request_problems(folder: Path, request: Mapping[str, Any], result: ImproveResult) -> list[str]:
    """Contradictions between the request and its samples, and the recipe of the start."""
    problems = []
    if request["rounds"] < len(result.rounds) - 1:
        problems.append(f"{REQUEST}: rounds {request['rounds']}, and {len(result.rounds) - 1} were made")
    for round_ in result.rounds[1:]:
        if round_.samples is None:
            continue
        decoding = read_json_object(round_.samples / EVALUATION_CONFIG)["decoding"]
        selection = read_json_object(round_.samples / SELECTION)["selection"]
        problems += [f"{REQUEST}: {key} {short_repr(request[key])}, round {round_.number} has {short_repr(value)}"
                     for key, value in (("temperature", decoding["temperature"]), ("samples", decoding["samples"]),
                                        ("selection", selection)) if request[key] != value]
        if decoding["seed"] != (expected := request["recipe"]["seed"] + round_.number):
            problems.append(f"round {round_.number} was sampled with seed {decoding['seed']}; the request says "
                            f"{expected}")
    # Each round has its own data; later ones use a vocabulary trained by the start.
    runs = [RunRecord.open(round_.run).manifest for round_ in result.rounds]
    start = runs[0].config
    problems += [f"{REQUEST}: other {name} than those of round_{number}"
                 for number, run in enumerate(runs) for name in (("items", "traces") if number == 0 else ("items",))
                 if (digest := run.data_digests.get(name)) not in (None, request.get(f"contents of {name}", digest))]
    learned = [(number, folder / "traces" / f"round_{number}.jsonl") for number in range(1, len(runs))]
    problems += [f"{path.relative_to(folder)} is not what round_{number} learned from" for number, path in learned
                 if path.is_file() and file_digest(path) != runs[number].data_digests.get("traces")]
    problems += [f"{REQUEST}: recipe.{key} {short_repr(value)}, the start has {short_repr(start.get(key))}"
                 for key, value in request["recipe"].items() if key not in ("data", "evaluation", "name")
                 and value != start.get(key)]
    return problems


def _without_folders(value: Any) -> Any:
    """A value with paths reduced to names, because a folder may have been moved."""
    if isinstance(value, Mapping):
        return {key: Path(inner).name if key in ("run", "unit", "control") and isinstance(inner, str)
                else _without_folders(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_without_folders(inner) for inner in value]
    return Path(value).name if isinstance(value, str) and "/" in value and " " not in value else value


def write_result(result: ImproveResult) -> None:
    """Writes `rounds.json`, replacing an earlier one."""
    atomic.write_json(result.out / RESULT, result.to_json())
