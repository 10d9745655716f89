"""Speed of this person's finished runs, from their manifests.

A run of the same engine on the same kind of device gives the operations a second that it reached, everything included.
The median over the runs replaces the assumed efficiency; runs whose steps are about as large go before others, because
small steps are mostly overhead. Runs that learned from rewards count where there are no others, by their updates alone.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from workings.config.load import check_recipe
from workings.engines.base import EngineRequest
from workings.errors import RecordError, RequestError
from workings.hardware.catalog import Target
from workings.hardware.machine import cpu_model
from workings.models.shape import ModelShape
from workings.planning.planned_run import longest_batch
from workings.planning.run_time import Throughput, step_operations
from workings.record.layout import MANIFEST, MODEL_SHAPE
from workings.record.reader import RunRecord
from workings.ways.base import way_of

MIN_STEPS = 5
"""Shorter runs are ignored: the first step compiles and warms up."""
SIMILAR_SIZE = 10.0
"""Largest ratio of the operations of two steps that are about as large."""


@dataclass(frozen=True, kw_only=True)
class FinishedRun:
    """One finished run of the same engine on the same kind of device."""

    name: str
    step_operations: float
    """Operations of one step over all devices, with rows as long as the longest."""
    operations_a_second: float
    """Operations of one device, with rows as long as the longest, over all steps."""
    from_rewards: bool = False
    """Whether it learned from rewards; the seconds of drawing are then left out."""


def measured_throughput(directory: Path, target: Target, engine: str, operations: float) -> Throughput | None:
    """The median speed of the engine's finished runs below ``directory`` on this kind of device; None without any.

    ``operations``: of one planned step over all devices.
    """
    every = list(finished_runs(directory, target, engine))
    if not every:
        return None
    every = [run for run in every if not run.from_rewards] or every
    # Small steps wait for launches and not for arithmetic: their speed says nothing about large ones.
    runs = [run for run in every if 1 / SIMILAR_SIZE <= run.step_operations / operations <= SIMILAR_SIZE]
    size = "" if runs else ", none with steps of about this size"
    runs = runs or every
    updates = ", by their updates without drawing" if runs[0].from_rewards else ""
    # The median, because one run that shared the machine would pull a mean down.
    speed = median(run.operations_a_second for run in runs)
    return Throughput(operations_a_second=speed, source=(
        f"{speed / 1e12:.3g} Tflop/s a device, the median of {len(runs)} finished run{'s' * (len(runs) > 1)} of yours "
        f"with {engine} on {target.kind} ({', '.join(run.name for run in runs[:3])}{', …' * (len(runs) > 3)}), "
        f"read from {directory}/*/{MANIFEST}{updates}{size}"))


def finished_runs(directory: Path, target: Target, engine: str) -> Iterator[FinishedRun]:
    """Complete runs of an engine directly below a directory that ran on this kind of device, by name."""
    # Manifests name the processor; the catalog has one row for all CPUs.
    kind = cpu_model() if target.platform == "cpu" else target.kind
    for path in sorted(directory.glob(f"*/{MANIFEST}")):
        try:
            run = RunRecord.open(path.parent)
            manifest = run.manifest
            if (run.status != "complete" or manifest.device.kind != kind or manifest.engine != engine
                    or manifest.completed_steps < MIN_STEPS):
                continue
            shape = ModelShape(**json.loads((path.parent / MODEL_SHAPE).read_text(encoding="utf-8")))
            recipe = check_recipe(dict(manifest.config), str(path))
            seconds = way_of(recipe).update_seconds(run)
        except (RecordError, RequestError, OSError, TypeError, ValueError):
            continue  # a run of another version, or an incomplete one, is ignored
        request = EngineRequest.of(recipe, shape, device=target.platform)
        # Plans count the longest rows as well, so the padding that real batches save is part of the speed.
        operations = step_operations(request, longest_batch(recipe, manifest.device.mesh.get("fsdp", 1)))
        if seconds > 0:
            yield FinishedRun(
                name=path.parent.name, from_rewards=bool(recipe.rewards), step_operations=operations,
                operations_a_second=operations * manifest.completed_steps / (seconds * manifest.device.count))
