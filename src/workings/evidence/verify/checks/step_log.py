"""Level 1: the log of the steps agrees with itself, with the manifest, the data, the checkpoints and the run before."""

import math
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from workings.config.training import TrainingConfig
from workings.evidence.verify.record import Unit
from workings.evidence.verify.registry import Found, check, contradictions, not_checked, require_train, same_json
from workings.evidence.verify.tree import shown
from workings.models.shards import whole_file
from workings.record.checkpoints import KEPT, best_checkpoint
from workings.record.layout import EVENTS, MANIFEST, METRICS, STATE

WEIGHTS_FILE = re.compile(r"/(?:adapter_)?model(?:-\d{5}-of-\d{5}|\.shard_\d{5}_of_\d{5})?\.safetensors$")
"""A checkpoint's file with weights, of a whole model or of adapters."""
RESUMED, FROM_SEALED = "resumed", "resumed_from_sealed"
"""Kinds of events: a run resumes after a checkpoint, or continues a sealed run."""
_CHECKPOINT = re.compile(r"step_(\d{1,12})\b")
_MOVED = re.compile(r"([\w.]{1,40}): (.{1,200}) before, (.{1,200}) now")


@check("consistency.steps")
def steps(unit: Unit) -> Found:
    """Numbers of the steps; the events of resumes against the steps that were kept, the layout and the run before."""
    numbers = [row.get("step") for row in unit.metrics]
    if numbers != list(range(1, len(numbers) + 1)):
        gap = next(index for index, number in enumerate(numbers, start=1) if number != index)
        yield f"line {gap} of {METRICS} is step {numbers[gap - 1]}"
    resumes = [row for row in unit.events if row.get("kind") == RESUMED]
    if unit.written_by_train:
        for row in resumes:
            yield from _resume_problems(row)
        yield from _layout_problems(unit, resumes)
        yield from _origin_problems(unit)
    return f"{len(numbers)} steps, {len(resumes)} resumes"


@check("consistency.learning_rate")
def learning_rate(unit: Unit) -> Found:
    """Peak, warm-up, schedule and number of steps give the rate of each."""
    training = unit.section("training")
    if "learning_rate" not in training:
        return not_checked("the recipe's snapshot names no learning rate")
    config = TrainingConfig.model_validate(training)
    for step in unit.steps:
        expected = config.rate_at(step.step) if step.step <= config.steps else math.nan
        # Cosines of two machines differ in the last bits.
        if not math.isclose(step.learning_rate, expected, rel_tol=1e-9, abs_tol=1e-15 * config.learning_rate):
            yield f"step {step.step}: {step.learning_rate:g}, the schedule gives {expected:g}"
    return f"{config.schedule} from {config.learning_rate:g}"


@check("consistency.checkpoints")
def last_checkpoint(unit: Unit) -> Found:
    """Steps of the checkpoints, against the run and against the state in each; their files, weights and number."""
    folders, done = unit.checkpoints, unit.manifest.completed_steps
    saved = ("complete", "interrupted") if unit.written_by_train else ("complete",)
    if not folders and unit.manifest.status in saved and done:
        yield f"{unit.manifest.status}, and no checkpoint of its last step"
    if not folders:
        return not_checked("the run holds no checkpoint", blocking=False)
    for number, folder in folders.items():
        yield from _state_problems(unit, number, folder)
    last = max(folders)
    # A run that failed may have died before it could save its last step.
    if last > done or (unit.manifest.status != "failed" and last != done):
        yield f"the last checkpoint is of step {last}, {done} steps were completed"
    yield from _file_problems(unit)
    if unit.written_by_train:
        yield from _kept_problems(unit)
        yield from _weights_problems(unit)
    return f"step {last}"


def _state_problems(unit: Unit, number: int, folder: str) -> Iterator[str]:
    """Problems of a checkpoint's state: its step, and its tokens and time against the log."""
    state = unit.json_object(f"{folder}/{STATE}")
    if state.get("step") != number:
        yield f"{folder}: its state is of step {state.get('step')}"
    elif unit.written_by_train:
        lines = unit.steps[:number]
        sums = {"tokens": sum(line.tokens for line in lines),
                "supervised_tokens": sum(line.supervised_tokens for line in lines),
                "training_seconds": math.fsum(line.seconds for line in lines)}
        for name, value in sums.items():
            recorded = state["facts"][name]
            # The run added up its seconds step by step, with other rounding.
            if not math.isclose(recorded, value, rel_tol=1e-9):
                yield f"{folder}: {name} is {str(recorded)[:20]}, the log adds up to {value}"


def _file_problems(unit: Unit) -> Iterator[str]:
    """Problems of the files: all checkpoints have the same ones, and hold tensors."""
    first: set[str] | None = None
    for folder in unit.checkpoints.values():
        names = {whole_file(file.rpartition("/")[2]) for file in [*unit.files, *unit.external_files]
                 if file.startswith(f"{folder}/")}
        first = names if first is None else first
        if not any(name.endswith(".safetensors") for name in names):
            yield f"{shown(folder)} holds no tensors"
        if names != first:
            yield f"{shown(folder)} has other files than the first checkpoint"


def _kept_problems(unit: Unit) -> Iterator[str]:
    """Problems of the kept steps: the newest that were due, such as 15, 20 and 23 of 23 if every 5 and 3 are kept."""
    section, done, numbers = unit.section("checkpoint"), unit.manifest.completed_steps, [*unit.checkpoints]
    if "checkpoint" not in unit.manifest.config or unit.manifest.resumes or unit.manifest.status == "failed":
        return  # a resumed run may have had another interval before
    every, keep, best = section["every_steps"], section["keep_last"], unit.best
    if section.get("every_minutes"):  # only a clock knew when these were due
        if numbers[-1:] != [done] or len(numbers) > keep + (best is not None):
            yield f"checkpoints of steps {str(numbers[:8])[1:-1]}, the recipe keeps {keep} and the last step's"
        return
    # A manifest may claim any number of steps; one more than there are is enough to differ.
    keep = min(keep, len(numbers) + 1)
    first_due = max(every, (done // every - keep) * every)
    due = sorted({*range(first_due, done + 1, every), done})[-keep:]
    if best is not None:
        due = sorted({*due, best.step})
    if numbers != due:
        yield f"checkpoints of steps {str(numbers[:8])[1:-1]}, the recipe keeps {str(due[:8])[1:-1]}"


def _weights_problems(unit: Unit) -> Iterator[str]:
    """Whether weights differ between two checkpoints exactly if the log says that steps between them changed some."""
    # By the digests in the sums: a pack may lack the tensors themselves.
    digests = {name: digest for name, digest in unit.sums.items() if WEIGHTS_FILE.search(name)}
    weights = {step: {name.rpartition("/")[2]: digest for name, digest in digests.items()
                      if name.startswith(f"{folder}/")} for step, folder in unit.checkpoints.items()}
    changed = {step.step for step in unit.steps if step.share_of_weights_changed > 0}
    for before, after in pairwise(weights):
        # Other numbers of processes write other files, whose digests cannot be compared.
        if not weights[before] or weights[before].keys() != weights[after].keys():
            continue
        has_changes, is_same = bool(changed & set(range(before + 1, after + 1))), weights[before] == weights[after]
        if is_same and has_changes:
            yield f"step_{after:06d} has the weights of step_{before:06d}, and steps between them changed weights"
        if not is_same and not has_changes:
            yield f"step_{after:06d} has other weights than step_{before:06d}, and no step between them changed any"


@check("consistency.checkpoints", when=lambda unit: unit.best is not None or KEPT in unit.manifest.facts)
def kept(unit: Unit) -> Found:
    """Step, measure and values of the manifest against the log; the run ended when its patience did."""
    require_train(unit)
    best, recorded = unit.best, unit.manifest.facts.get(KEPT)
    if best is None:
        yield f"{MANIFEST} names a kept checkpoint, by recipe and log there is none"
        return None
    if recorded is None:
        yield f"{MANIFEST} names no kept checkpoint, by recipe and log there is one"
        return None
    names = ("step", "measure", "value", "measured", "last_step", "last_value")
    yield from contradictions(f"{MANIFEST}: {KEPT}", recorded, {name: getattr(best, name) for name in names},
                              "by the log it is")
    before = [line for line in unit.metrics if line["step"] < best.last_step]
    earlier = best_checkpoint(unit.section("checkpoint"), before, unit.manifest.planned_steps)
    if earlier is not None and earlier.ends_the_run:
        yield f"the run continued after step {earlier.last_step}: {earlier.reason}"
    return f"step {best.step} was kept: its {best.measure} {best.value:.4g} is the best of {best.measured}"


def _resume_problems(row: dict[str, Any]) -> Iterator[str]:
    """Impossible numbers in the event of a resume, which keeps the steps of its checkpoint and drops later ones."""
    step, dropped = row["from_step"], row.get("dropped_steps", 0)
    kept = row.get("kept_steps", step)
    if type(step) is not int or type(dropped) is not int or min(step, dropped) < 0 or not same_json(kept, step):
        yield f"{EVENTS}: resumed after step {str(step)[:20]} with {str(kept)[:20]} steps kept, {str(dropped)[:20]} not"
        return
    for text in _listed(row, "damaged_checkpoints"):
        match = _CHECKPOINT.match(text)
        # A checkpoint is never ahead of the log.
        if match is None or not step < int(match[1]) <= step + dropped:
            yield f"{EVENTS}: resumed after step {step}, {dropped} dropped, and {text[:60]!r} was damaged"


def _layout_problems(unit: Unit, resumes: list[dict[str, Any]]) -> Iterator[str]:
    """The batch and mesh that resumes moved to last, against those of the run."""
    layout = {"mesh": str(dict(unit.manifest.device.mesh)), **{
        f"{name}.{key}": repr(value) for name in ("batch", "mesh") for key, value in unit.section(name).items()}}
    last: dict[str, str] = {}  # the last value that each key moved to
    for row in resumes:
        for text in _listed(row, "moved"):
            match = _MOVED.fullmatch(text)
            if match is None:
                yield f"{EVENTS}: moved is {text[:60]!r}"
            else:
                last[match[1]] = match[3]
    yield from (f"{EVENTS}: it moved to {key} {now[:40]}, the recipe has {layout.get(key, 'no such key')[:40]}"
                for key, now in last.items() if layout.get(key) != now)


def _listed(row: dict[str, Any], key: str) -> list[str]:
    """Texts of a list in an event, or of its only entry; empty without the key."""
    value = row.get(key, [])
    return [str(text) for text in (value if isinstance(value, list) else [value])]


def _origin_problems(unit: Unit) -> Iterator[str]:
    """Contradictions with the sealed run that this one resumed, if it is here."""
    origin = next((row for row in reversed(unit.events) if row.get("kind") == FROM_SEALED), None)
    if origin is None:
        before = [run for run in unit.record.runs if run.path.startswith(f"{unit.path}.interrupted-")]
        yield from (f"{EVENTS}: the first lines are those of {run.title[:60]}, and none names it" for run in before
                    if unit.events[:len(run.events)] == run.events)
        return
    folder, root = unit.path.rpartition("/")[0], str(origin.get("root"))
    path = f"{folder}/{origin.get('name')}".lstrip("/")
    earlier = unit.record.by_root.get(root)
    if earlier is None:
        if any(run.path == path for run in unit.record.runs):
            yield f"{EVENTS}: it resumed root {root[:16]}…, but {path[:60]} has another"
        return
    resume = next((row for row in unit.events[unit.events.index(origin):] if row.get("kind") == RESUMED), {})
    count, dropped = resume.get("from_step"), resume.get("dropped_steps")
    if type(count) is not int or count < 0:
        return  # reported with the resumes
    if dropped != len(earlier.metrics) - count:
        yield f"{EVENTS}: {str(dropped)[:20]} steps were dropped, {earlier.title[:60]} has {len(earlier.metrics)}"
    if unit.metrics[:count] != earlier.metrics[:count]:
        yield f"{METRICS}: the first {count} lines are not those of {earlier.title[:60]}, which it resumed"
    if unit.events[:len(earlier.events)] != earlier.events:
        yield f"{EVENTS}: the first lines are not those of {earlier.title[:60]}, which it resumed"
