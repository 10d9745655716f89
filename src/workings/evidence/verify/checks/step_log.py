"""Level 1: the log of the steps agrees with itself, with the manifest and with the data."""

import math
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from pydantic import ValidationError

from workings.config.training import TrainingConfig
from workings.errors import RecordError
from workings.evidence.verify.checks.run_events import resume_problems, resumes_of
from workings.evidence.verify.learning import best_of
from workings.evidence.verify.record import Unit
from workings.evidence.verify.registry import check, failed, finding_from, not_checked
from workings.evidence.verify.result import CheckFinding
from workings.evidence.verify.tree import shown
from workings.models.shards import whole_file
from workings.record.layout import CHECKPOINTS, CONFIG, METRICS, STATE
from workings.training.schedule import Schedule

WEIGHTS_FILE = re.compile(r"/(?:adapter_)?model(?:-\d{5}-of-\d{5}|\.shard_\d{5}_of_\d{5})?\.safetensors$")
"""A checkpoint's file with weights, of a whole model or of adapters."""


@check("consistency.steps")
def steps(unit: Unit) -> Iterator[CheckFinding]:
    """Numbers of the steps; the events of resumes against the steps that were kept, the layout and the run before."""
    numbers = [row.get("step") for row in unit.metrics]
    problems = []
    # A smoothed curve or a removed step shows as a gap, because steps count from 1 without gaps.
    if numbers != list(range(1, len(numbers) + 1)):
        gap = next(index for index, number in enumerate(numbers, start=1) if number != index)
        problems.append(f"line {gap} of {METRICS} is step {numbers[gap - 1]}")
    resumes = len(resumes_of(unit))
    problems += resume_problems(unit)
    yield finding_from(problems, f"{len(numbers)} steps, {resumes} resumes", unit)


@check("consistency.learning_rate")
def learning_rate(unit: Unit) -> Iterator[CheckFinding]:
    """Peak, warm-up, schedule and number of steps give the rate of each."""
    training = unit.manifest.config.get("training")
    if not isinstance(training, dict) or "learning_rate" not in training:
        yield not_checked("the recipe's snapshot names no learning rate", unit)
        return
    try:
        schedule = Schedule.from_config(TrainingConfig.model_validate(training))
    except ValidationError as error:
        raise RecordError(f"{CONFIG}: training cannot be read ({str(error)[:80]})") from None
    problems = []
    for step in unit.steps:
        expected = schedule.at(step.step) if step.step <= schedule.steps else math.nan
        # Cosines of two machines differ in the last bits.
        if not math.isclose(step.learning_rate, expected, rel_tol=1e-9, abs_tol=1e-15 * schedule.peak):
            problems.append(f"step {step.step}: {step.learning_rate:g}, the schedule gives {expected:g}")
    yield finding_from(problems, f"{schedule.kind} from {schedule.peak:g}", unit)


@check("consistency.checkpoints")
def last_checkpoint(unit: Unit) -> Iterator[CheckFinding]:
    """Their steps, the step in their state, and its tokens, time and data position."""
    folders = sorted({name.split("/")[1] for name in unit.files if name.startswith(CHECKPOINTS + "/step_")})
    # A run that is stopped saves its last step as well.
    saved = ("complete", "interrupted") if unit.written_by_train else ("complete",)
    if not folders and unit.manifest.status in saved and unit.manifest.completed_steps:
        yield failed(f"{unit.manifest.status}, and no checkpoint of its last step", unit)
        return
    if not folders:
        yield not_checked("the run holds no checkpoint", unit, blocking=False)
        return
    states = {_number(folder): _state(unit, folder) for folder in folders}
    problems = [f"step_{number:06d} says it is of step {state.get('step')}" for number, state in states.items()
                if state.get("step") != number]
    last, done = max(states), unit.manifest.completed_steps
    # A run that failed may have died before it could save its last step; every other one saves it before it is
    # sealed.
    if last > done or (unit.manifest.status != "failed" and last != done):
        problems.append(f"the last checkpoint is of step {last}, {done} steps were completed")
    problems += _file_problems(unit, folders)
    if unit.written_by_train:
        problems += _kept_problems(unit, sorted(states))
        problems += _unchanged_weights(unit, sorted(states))
        for number, state in states.items():
            problems += _state_problems(unit, number, state)
    yield finding_from(problems, f"step {last}", unit)


def _file_problems(unit: Unit, folders: list[str]) -> list[str]:
    """Problems of the files: all checkpoints have the same ones, and hold tensors."""
    names = {folder: {whole_file(file.rpartition("/")[2]) for file in [*unit.files, *unit.external_files]
                      if file.startswith(f"{CHECKPOINTS}/{folder}/")} for folder in folders}
    empty = [folder for folder, files in names.items() if not any(name.endswith(".safetensors") for name in files)]
    # A large model's tensors are in as many files in every checkpoint: the engine splits them by its shapes. Only the
    # number of shards changes with the number of processes.
    other = [folder for folder in folders[1:] if names[folder] != names[folders[0]]]
    return [f"{shown(folder)} holds no tensors" for folder in empty] + [
        f"{shown(folder)} has other files than {shown(folders[0])}" for folder in other]


def _kept_problems(unit: Unit, numbers: list[int]) -> list[str]:
    """Problems of the kept steps: the newest that were due. A resumed run may have had another interval before."""
    section, done = unit.manifest.config.get("checkpoint"), unit.manifest.completed_steps
    if not isinstance(section, dict) or unit.manifest.resumes or unit.manifest.status == "failed":
        return []
    every, keep = section.get("every_steps"), section.get("keep_last")
    if type(every) is not int or type(keep) is not int or every < 1 or keep < 1:
        return ["the recipe's checkpoint.every_steps or keep_last is no count"]
    if section.get("every_minutes"):  # when those were due, only a clock knew
        kept = keep + (best_of(unit) is not None)
        return [] if numbers[-1:] == [done] and len(numbers) <= kept else [
            f"checkpoints of steps {str(numbers[:8])[1:-1]}, the recipe keeps {keep} and the last step's"]
    # One more than there are is enough to differ, and a manifest may claim any number of steps.
    keep = min(keep, len(numbers) + 1)
    due = sorted({done, *range(max(every, (done // every - keep) * every), done + 1, every)})[-keep:]
    if (best := best_of(unit)) is not None:
        due = sorted({best.step, *due})
    return [] if numbers == due else [f"checkpoints of steps {str(numbers[:8])[1:-1]}, the recipe keeps "
                                      f"{str(due[:8])[1:-1]}"]


def _unchanged_weights(unit: Unit, numbers: list[int]) -> list[str]:
    """Checkpoints with an earlier one's weights although the log says that steps changed some, or the other way."""
    # By the digests of the sums: the bytes of the tensors need not be read, nor even be here.
    weights = {number: {name.rpartition("/")[2]: digest for name, digest in unit.sums.items()
                        if name.startswith(f"{CHECKPOINTS}/step_{number:06d}/") and WEIGHTS_FILE.search(name)}
               for number in numbers}
    changed = {step.step for step in unit.steps if step.share_of_weights_changed > 0}
    problems = []
    for before, after in pairwise(numbers):
        # The steps between two checkpoints are those after the first, up to and with the second.
        has_changes, same = bool(changed & set(range(before + 1, after + 1))), weights[before] == weights[after]
        # Files of different numbers of processes cannot be compared by their digests.
        if not weights[before] or weights[before].keys() != weights[after].keys() or has_changes is not same:
            continue
        problems.append(f"step_{after:06d} has the weights of step_{before:06d}, and steps between them changed weights"
                        if same else f"step_{after:06d} has other weights than step_{before:06d}, and no step between "
                                     "them changed any")
    return problems


def _state_problems(unit: Unit, number: int, state: dict[str, Any]) -> list[str]:
    """Problems of a checkpoint's state: tokens and time add up from the lines of its steps."""
    facts, rows = state.get("facts"), unit.steps[:number]
    if not isinstance(facts, dict):
        return [f"step_{number:06d}: its state says nothing"]
    sums = {"tokens": sum(row.tokens for row in rows),
            "supervised_tokens": sum(row.supervised_tokens for row in rows),
            "training_seconds": math.fsum(row.seconds for row in rows)}
    # Counts are exact; seconds were summed step by step, with other rounding.
    return [f"step_{number:06d}: {name} is {str(facts.get(name))[:20]}, the log adds up to {value}"
            for name, value in sums.items() if not isinstance(facts.get(name), int | float)
            or not math.isclose(facts[name], value, rel_tol=1e-9)]


def _number(folder: str) -> int:
    digits = folder.removeprefix("step_")
    # `int` refuses thousands of digits with its own error, so the length is tested first.
    if not digits.isdigit() or len(digits) > 12:
        raise RecordError(f"{folder[:60]}: not a checkpoint's name")
    return int(digits)


def _state(unit: Unit, folder: str) -> dict[str, Any]:
    state = unit.json(f"{CHECKPOINTS}/{folder}/{STATE}")
    return state if isinstance(state, dict) else {}
