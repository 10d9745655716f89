"""A record's claims about itself as sentences, to read with the verdicts."""

from typing import Any

from workings.errors import RecordError
from workings.evidence.notes import parse_note
from workings.evidence.verify.record import Record, Unit
from workings.evidence.verify.tree import shown
from workings.models.unverified import said_of_recipe
from workings.record.layout import EVALUATION_SUMMARY, NOTE, SAMPLED, SELECTION
from workings.record.number_text import percent
from workings.record.values import Absent

NOT_PROVED = (
    "Verification does not prove that these steps ran on that device at that time, that no other run was left out of "
    "the list of attempts, or that the data are what they are called. A replay shows only that the recorded steps give "
    "the recorded numbers; an independent run of the same recipe needs no trust in this record's author.",)


def record_sentences(record: Record) -> tuple[str, ...]:
    """A sentence for each run and evaluation that can be read, and one about what verification does not prove."""
    sentences = []
    for unit in record.units:
        try:
            if unit.is_run:
                sentences.append(_run(unit))
            elif unit.kind == "eval":
                sentences.append(_evaluation(unit))
            elif unit.kind == SAMPLED:
                sentences.append(_samples(unit))
            elif unit.kind == "notes":
                sentences.append(_note(unit))
        # The checks report errors; a missing sentence must not stop the answer.
        except (RecordError, KeyError, TypeError, ValueError, AttributeError):
            sentences.append(f"{unit.title}: cannot be read.")
    return (*sentences, *NOT_PROVED)


def _run(unit: Unit) -> str:
    manifest = unit.manifest
    loss = manifest.final_loss
    end = "no step" if isinstance(loss, Absent) else f"final loss {loss:.4f}"
    # Of a run that was trained on rewards, the loss means nothing to people.
    if rewards := [row["reward"] for row in unit.metrics if "reward" in row]:
        end = f"mean reward {rewards[0]:.3f} at first, {rewards[-1]:.3f} at last"
    return (f"{unit.title}: run {manifest.name} ({manifest.status}) took {manifest.completed_steps} of "
            f"{manifest.planned_steps} steps of {manifest.model_id} ({manifest.parameters:,} parameters) on "
            f"{manifest.hardware} with engine {manifest.engine} of {manifest.engine_distribution.name} "
            f"{manifest.engine_distribution.version}; {end}."
            + f" {said_of_recipe(manifest.config, manifest.architecture)}".rstrip())


def _evaluation(unit: Unit) -> str:
    overall: dict[str, Any] = unit.json(EVALUATION_SUMMARY)["scorecard"]["overall"]
    interval = (f", 95 % interval {100 * overall['ci_low']:.1f} to {100 * overall['ci_high']:.1f}"
                if isinstance(overall["ci_low"], int | float) else "")
    right = f"{overall['correct']} of {overall['n']} items correct ({percent(overall['mean'])}{interval})"
    return f"{unit.title}: {right}."


def _samples(unit: Unit) -> str:
    counts: dict[str, Any] = unit.json(SELECTION)["counts"]
    return (f"{unit.title}: {counts['samples']} samples of {counts['prompts']} prompts, which were solved never "
            f"({counts['never']}), sometimes ({counts['sometimes']}) or always ({counts['always']}); "
            f"{counts['kept']} were kept.")


def _note(unit: Unit) -> str:
    note = parse_note(unit.json(NOTE))
    facts = ", ".join(f"{key} = {shown(value)}" for key, value in sorted(note["facts"].items()))
    return f"{unit.title}: said afterwards, at {shown(note['written_at'])}, and not recorded by the run: {facts}."
