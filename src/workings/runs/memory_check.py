"""Memory check before training: compares the compiled step's peak with this device's limit."""

from collections.abc import Mapping
from dataclasses import replace
from shlex import join
from typing import Any

from workings.engines.base import Memory, MeshShape
from workings.errors import DoesNotFit, WorkingsError, first_line
from workings.hardware.memory import PROCESS_PEAK, gib, peak_resident_bytes, resident_bytes
from workings.planning.plan import Plan, plan_from_inspection
from workings.planning.planned_run import PlannedRun
from workings.planning.search import find_nearest
from workings.record.memory_use import growth
from workings.record.values import absent
from workings.runs.prepare import TrainSetup, target_here
from workings.ways.parts.teacher import teacher_model


def plan_here(prepared: TrainSetup) -> Plan:
    """The plan of the compiled step: verdict, parts and the largest of them."""
    run = PlannedRun(recipe=prepared.loaded.recipe, request=prepared.request, target=target_here(prepared.device),
                     mesh=MeshShape.of(prepared.device.mesh), programs={"step": prepared.longest_batch},
                     device_bytes=prepared.device.memory_limit_bytes)
    plan = plan_from_inspection(run, prepared.inspection, prepared.device, program=prepared.program)
    return replace(plan, verdict=prepared.verdict, batch=prepared.longest_batch)


def refusal(prepared: TrainSetup) -> DoesNotFit:
    """The error for a run that does not fit, with the nearest plan that does, if the search found one."""
    recipe = prepared.loaded.recipe
    target = target_here(prepared.device)
    plan = plan_here(prepared)
    lines, nearest_plan = list(plan.reasons), None
    # Without a topology a TPU's compiler cannot compile any candidate.
    if target.platform != "tpu" or target.topology:
        try:
            nearest_plan = find_nearest(recipe, prepared.shape, target, plan, teacher_model(prepared.loaded))
        except WorkingsError as error:
            # A failed search only costs the hint.
            lines.append(f"the search for a plan that fits stopped: {first_line(error)}")
    if nearest_plan is not None:
        plan = replace(plan, nearest=nearest_plan)
        lines.append(f"nearest plan that fits: {gib(nearest_plan.peak_bytes)} of {gib(nearest_plan.limit_bytes)} "
                     f"({nearest_plan.source}); the same command with: {join(nearest_plan.overrides)}")
    else:
        lines.append("no plan of the search fits this device: try a smaller model, shorter rows, or another machine: "
                     "`workings plan RECIPE --on v5e-256` shows the plan of one")
    if prepared.inspection.refused:
        lines.append("the compiler refuses this program, so --force cannot run it")
    else:
        lines.append("--force runs it anyway")
    return DoesNotFit("\n".join(lines), {"status": "does not fit", "steps": 0, **plan.to_json(), "reasons": lines})


def memory_before(prepared: TrainSetup) -> dict[str, Any]:
    """`plan/measured.json` before the first weight: memory that the process holds; nothing of other devices."""
    # Both: a peak from compiling hides the growth of training.
    return ({"resident_before_bytes": resident_bytes(), "peak_before_bytes": peak_resident_bytes()}
            if prepared.device.platform == "cpu" else {})


def measured_memory(prepared: TrainSetup, before: Mapping[str, Any], memory: Memory,
                    out_of_memory: str = "") -> dict[str, Any]:
    """`plan/measured.json` at the end; ``before``: as `memory_before` gave it. See `workings.record.memory_use`."""
    facts = {**before, "measured_peak_bytes": memory.peak_bytes, "measured_source": memory.source,
             "out_of_memory": out_of_memory or absent("memory sufficed").model_dump()}
    if prepared.device.platform == "cpu":
        # Only a process's own peak can be compared with what it held before.
        peak = memory.peak_bytes if memory.source == PROCESS_PEAK else peak_resident_bytes()
        grown = growth(peak, before["resident_before_bytes"], before["peak_before_bytes"])
        facts["growth_bytes"] = grown if grown is not None else absent(
            "the process used more before the first weight, while it compiled or in an earlier run").model_dump()
    return facts
