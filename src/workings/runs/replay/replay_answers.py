"""Answers of a run that a replay repeats: evaluations of its last state, and its samples."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from workings.errors import RequestError
from workings.evidence.replay.comparison import Facts
from workings.evidence.replay.outcomes import AnswerPopulation, RecordedEvaluation, generate_again
from workings.evidence.replay.step_selection import choose_numbers
from workings.record import jsonl
from workings.record.canonical import loads
from workings.record.layout import EVALUATION_CONFIG, PREDICTIONS, SAMPLED
from workings.record.reader import RunRecord
from workings.samples.unit import SampleUnit
from workings.ways.parts.replay_source import ReopenedRun


def answered_units(opened: ReopenedRun, samples: Sequence[Path]) -> list[RecordedEvaluation]:
    """Answers of the run's last state; empty if that state was not kept.

    Raises:
        RequestError: samples of another run.
    """
    # All are answers of the last state; without its checkpoint nothing can be repeated.
    if opened.run.manifest.completed_steps not in opened.checkpoints_by_step:
        return []
    return [*_own_evaluations(opened.run), *_samples_of(opened.run, samples)]


def ask_again(opened: ReopenedRun, units: Sequence[RecordedEvaluation],
              selection: Sequence[tuple[AnswerPopulation, int]], seed: int, *,
              by_batch: bool, say: Callable[[str], None]) -> list[dict[str, Any]]:
    """Generates completions of the items that a seed selects of each unit; each with the recorded one.

    ``selection``: the size of each unit, and how many of its batches are generated.
    """
    if not units:
        return []
    say("answers to repeat: " + ", ".join(
        f"{population.items_in(count)} of {population.items} items of {population.unit}"
        for population, count in selection))
    session = opened.session(
        opened.engine, opened.engine.restore(opened.checkpoint(opened.run.manifest.completed_steps).path))
    return [line for unit, (population, count) in zip(units, selection, strict=True)
            for line in generate_again(session, unit, choose_numbers(seed, population.unit, population.batches, count),
                                       by_batch=by_batch)]


def counted(lines: list[dict[str, Any]], requested: int) -> Facts:
    """Numbers of repeated and of equal completions, or why they are missing; ``requested``: items per unit."""
    if lines:
        return {"units": sorted({line["unit"] for line in lines}), "asked": len(lines),
                "same": sum(line["same"] for line in lines)}
    if not requested:
        return {"absent": "none requested"}
    return {"absent": "the run has no evaluation of its last checkpoint that it generated itself"}


def _own_evaluations(run: RunRecord) -> Iterator[RecordedEvaluation]:
    for unit in run.evaluations():
        config = loads((unit.path / EVALUATION_CONFIG).read_bytes())
        # Only answers that this run's state generated.
        if config.get("source") == {"kind": "generated"} and config.get("made_from") == run.root:
            yield RecordedEvaluation(unit=f"eval/{unit.name}", config=config,
                                     rows=jsonl.read(unit.path / PREDICTIONS)[0])


def _samples_of(run: RunRecord, paths: Sequence[Path]) -> Iterator[RecordedEvaluation]:
    for path in paths:
        unit = SampleUnit.open(path)
        if unit.config["made_from"] != run.root:
            raise RequestError(f"--samples {path} were not sampled from {run.path}",
                               "samples whose made_from is the run's root digest")
        yield RecordedEvaluation(unit=f"{SAMPLED}/{unit.root}", config=unit.config,
                                 rows=jsonl.read(path / PREDICTIONS)[0])
