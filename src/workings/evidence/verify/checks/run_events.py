"""A run's events (resumes, announcement, end) against manifest, recipe and other records."""

import re
from collections.abc import Iterator
from typing import Any

from workings.evidence.verify.learning import early_end_of
from workings.evidence.verify.record import Unit
from workings.evidence.verify.registry import same_json, written_by_this_version
from workings.record.layout import ANNOUNCED, EVENTS, METRICS, RECIPE_EVALUATION
from workings.record.manifest import REASONS

FAILED, RESUMED, FROM_SEALED = "failed", "resumed", "resumed_from_sealed"
"""Kinds of events: a run fails, resumes after a checkpoint, or continues a sealed run."""
_NOT_FINITE = re.compile(r"step (\d{1,12}): loss ")
_OUT_OF_MEMORY = re.compile(r"out of memory after step (\d{1,12})\b")
_CHECKPOINT = re.compile(r"step_(\d{1,12})\b")
_MOVED = re.compile(r"([\w.]{1,40}): (.{1,200}) before, (.{1,200}) now")


def end_problems(unit: Unit) -> Iterator[str]:
    """The reason of the end: the only one of its status, or that of the failure's event and of the step that failed."""
    if not written_by_this_version(unit):
        return
    manifest, reason = unit.manifest, unit.manifest.status_reason
    expected = REASONS.get(manifest.status, reason)
    if manifest.status == "complete":
        expected = early_end_of(unit) or expected
    if reason != expected:
        yield f"{manifest.status}, and the reason is {reason[:60]!r} instead of {expected!r}"
    if manifest.status == "interrupted" and manifest.completed_steps == manifest.planned_steps:
        yield "interrupted, but every planned step was taken"
    kinds = [row.get("kind") for row in unit.events]
    # An attempt fails once, and a failed run may be resumed and fail again.
    if kinds.count(FAILED) > len(unit.starts):
        yield f"{kinds.count(FAILED)} events tell of a failure, {len(unit.starts)} of a start"
    if manifest.status != "failed":
        return
    if kinds[-1:] != [FAILED] or unit.events[-1].get("reason") != reason:
        yield f"failed for {reason[:60]!r}, and the last event is {str(unit.events[-1:])[:120]}"
    if reason in REASONS.values():
        yield f"failed, and the reason is {reason!r}"
    for pattern, after in ((_NOT_FINITE, 1), (_OUT_OF_MEMORY, 0)):
        if (match := pattern.match(reason)) and int(match[1]) != manifest.completed_steps + after:
            yield f"{reason[:60]!r}, and {manifest.completed_steps} steps were completed"


def resume_problems(unit: Unit) -> Iterator[str]:
    """Resumes against the kept steps, the new layout, and the earlier run."""
    if not unit.written_by_train:
        return
    manifest, resumes = unit.manifest, resumes_of(unit)
    for row in resumes:
        yield from _kept_problems(row)
    sections = {name: manifest.config.get(name) for name in ("batch", "mesh")}
    layout = {"mesh": str(dict(manifest.device.mesh)), **{
        f"{name}.{key}": repr(value) for name, section in sections.items() if isinstance(section, dict)
        for key, value in section.items()}}
    last: dict[str, str] = {}
    for text in (text for row in resumes for text in moves_of(row)):
        match = _MOVED.fullmatch(text)
        if match is None:
            yield f"{EVENTS}: moved is {text[:60]!r}"
        else:
            # A later attempt may have moved the same key again.
            last[match[1]] = match[3]
    yield from (f"{EVENTS}: it moved to {key} {now[:40]}, the recipe has {layout.get(key, 'no such key')[:40]}"
                for key, now in last.items() if layout.get(key) != now)
    yield from _origin_problems(unit)


def resumes_of(unit: Unit) -> list[dict[str, Any]]:
    """The events with which a run was resumed."""
    return [row for row in unit.events if row.get("kind") == RESUMED]


def moves_of(row: dict[str, Any]) -> list[str]:
    """A resumed run's new layout, in the words of the event; empty if unchanged."""
    moved = row.get("moved", [])
    return [str(text) for text in (moved if isinstance(moved, list) else [moved])]


def _kept_problems(row: dict[str, Any]) -> Iterator[str]:
    """Numbers of one resume that cannot be: it keeps the steps of its checkpoint, and passes over newer ones only."""
    step, kept, dropped = row.get("from_step"), row.get("kept_steps"), row.get("dropped_steps", 0)
    if type(step) is not int or type(dropped) is not int or min(step, dropped) < 0 or not same_json(
            row.get("kept_steps", step), step):
        yield f"{EVENTS}: resumed after step {str(step)[:20]} with {str(kept)[:20]} steps kept, {str(dropped)[:20]} not"
        return
    damaged = row.get("damaged_checkpoints", [])
    for text in map(str, damaged if isinstance(damaged, list) else [damaged]):
        match = _CHECKPOINT.match(text)
        # A checkpoint is never ahead of the log.
        if match is None or not step < int(match[1]) <= step + dropped:
            yield f"{EVENTS}: resumed after step {step}, {dropped} dropped, and {text[:60]!r} was damaged"


def _origin_problems(unit: Unit) -> Iterator[str]:
    """Contradictions with the sealed run that this one resumed, if it is here."""
    told = next((row for row in reversed(unit.events) if row.get("kind") == FROM_SEALED), None)
    if told is None:
        before = [run for run in unit.record.runs if run.path.startswith(f"{unit.path}.interrupted-")]
        yield from (f"{EVENTS}: the first lines are those of {run.title[:60]}, and none names it" for run in before
                    if unit.events[:len(run.events)] == run.events)
        return
    folder, root = unit.path.rpartition("/")[0], str(told.get("root"))
    beside = f"{folder}/{told.get('name')}".lstrip("/")
    earlier = unit.record.runs_by_root.get(root)
    if earlier is None:
        if beside in unit.record.run_paths:
            yield f"{EVENTS}: it resumed root {root[:16]}…, but {beside[:60]} has another"
        return
    resume = next((row for row in unit.events[unit.events.index(told):] if row.get("kind") == RESUMED), {})
    count, dropped = resume.get("from_step"), resume.get("dropped_steps")
    if type(count) is not int or count < 0:
        return  # reported with the resumes
    if dropped != len(earlier.metrics) - count:
        yield f"{EVENTS}: {str(dropped)[:20]} steps were dropped, {earlier.title[:60]} has {len(earlier.metrics)}"
    if unit.metrics[:count] != earlier.metrics[:count]:
        yield f"{METRICS}: the first {count} lines are not those of {earlier.title[:60]}, which it resumed"
    if unit.events[:len(earlier.events)] != earlier.events:
        yield f"{EVENTS}: the first lines are not those of {earlier.title[:60]}, which it resumed"


def announcement_problems(unit: Unit) -> Iterator[str]:
    """The event that announces the evaluation: once, before the first step, as the recipe asks."""
    from workings.evaluation.settings import settings_of
    told = [row for row in unit.events if row.get("kind") == ANNOUNCED]
    if not written_by_this_version(unit):
        return
    if (recipe := unit.recipe) is None:
        return
    asked = int(recipe.evaluation.items != "none")
    # An attempt that was killed at once announced nothing, and a later one could know the answers.
    if len(told) > asked or (len(told) < asked and not unit.manifest.resumes):
        yield f"{len(told)} events announce the evaluation of {recipe.evaluation.items[:40]!r}"
    if not told:
        return
    expected = {"decoding": settings_of(recipe).decoding(), "evaluation": RECIPE_EVALUATION}
    yield from (f"{EVENTS}: announced with {key} {str(told[0].get(key))[:80]}, the recipe asks for {str(value)[:80]}"
                for key, value in expected.items() if not same_json(told[0].get(key), value))
