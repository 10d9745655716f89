"""The peak memory of a program split into parts, such as ``moments``, and a sentence about the largest of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from workings.engines.base import Inspection, ProgramName
from workings.hardware.memory import gib
from workings.planning.forward_memory import forward_program_parts
from workings.planning.further_memory import FROZEN_MODELS, TEACHER
from workings.planning.memory_formulas import PER_LAYER_TABLE, exact_parts, table_bytes
from workings.planning.planned_run import PlannedRun
from workings.planning.step_memory import largest_phase_parts
from workings.planning.verdict import Verdict
from workings.record.number_text import percent

UNEXPLAINED = "everything else"
NEGLIGIBLE_BYTES = 1024
"""Fewer unexplained bytes are rounding."""
PART_GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("optimizer state", ("moments", "master weights")),
    ("gradients", ("gradients", "gradient accumulator", "gradient of the embedding", "head gradient in fp32")),
    ("activations", ("activations", "activations kept for backward", "activations of the layer at hand")),
    ("weights of single layers", ("weights of the layer at hand", "weights laid out for gathering")),
)
"""Groups by the names that people read; a part outside all groups is its own group."""
Certainty = Literal["exact", "by proportion", "traced", "estimated", "assumed", "unexplained"]
"""How the size of a part is known (`docs/planning.md`, parts of the peak)."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """One part of the memory of a device."""

    name: str
    size_bytes: int
    certainty: Certainty


def split_parts(run: PlannedRun, program: ProgramName, inspection: Inspection) -> tuple[Part, ...]:
    """Parts that add up to the peak of one program."""
    if inspection.source == "traced":
        return tuple(Part(name=name, size_bytes=size, certainty="assumed" if name in inspection.assumed else "traced")
                     for name, size in inspection.breakdown.items())
    counted = exact_parts(run.request, run.mesh.share_of_a_copy(run.largest_shape(program)), *run.mesh.of_a_copy)
    if inspection.source == "estimated":
        exact = {*counted, *inspection.exact}
        return tuple(Part(name=name, size_bytes=size, certainty="exact" if name in exact else "estimated")
                     for name, size in inspection.breakdown.items() if size)
    return _compiled_parts(run, program, inspection, counted)


def _compiled_parts(run: PlannedRun, program: ProgramName, inspection: Inspection,
                    counted: Mapping[str, int]) -> tuple[Part, ...]:
    """Parts of a compiled program: its arguments, its temporary arrays, its code, and what none of these explains."""
    exact = with_per_layer_table(inspection.exact, run, program)
    if not exact:
        frozen_models = {name: size for name, size in inspection.breakdown.items() if name in FROZEN_MODELS}
        # Gradients are temporary arrays of the program and no arguments.
        exact = {name: size for name, size in counted.items() if not name.startswith("gradient")} | frozen_models
    not_exact = inspection.peak_bytes - sum(exact.values())
    temporary = _by_proportion(run, program, counted, not_exact)
    left = not_exact - sum(temporary.values())
    # At most what is left, so that the parts still add up to the peak.
    code = min(max(0, left), inspection.breakdown.get("code", 0))
    sizes: list[tuple[Certainty, Mapping[str, int]]] = [
        ("exact", exact), ("by proportion", temporary), ("exact", {"code of the program": code})]
    if abs(left - code) >= NEGLIGIBLE_BYTES:
        sizes.append(("unexplained", {UNEXPLAINED: left - code}))
    return tuple(Part(name=name, size_bytes=size, certainty=certainty) for certainty, parts in sizes
                 for name, size in parts.items() if size)


def with_per_layer_table(parts: Mapping[str, int], run: PlannedRun, program: ProgramName) -> dict[str, int]:
    """The exact parts of a compiled program, with the per-layer embeddings taken out of ``parameters``."""
    table = table_bytes(run.request, *run.mesh.of_a_copy)
    # The teacher's program has the teacher's parameters, while the request describes the student.
    if not table or program == TEACHER or "parameters" not in parts:
        return dict(parts)
    return {"parameters": parts["parameters"] - table, PER_LAYER_TABLE: table} | {
        name: size for name, size in parts.items() if name != "parameters"}


def _by_proportion(run: PlannedRun, program: ProgramName, counted: Mapping[str, int], most: int) -> dict[str, int]:
    """Temporary arrays of a compiled program by the formulas, scaled down to ``most`` bytes; empty for a teacher."""
    if program == TEACHER:
        return {}
    shape, mesh = run.mesh.share_of_a_copy(run.largest_shape(program)), run.mesh.of_a_copy
    if program == "step":
        accumulator = {name: size for name, size in counted.items() if name == "gradient accumulator"}
        parts = accumulator | largest_phase_parts(run.request, shape, *mesh, run.target.platform)
    else:
        estimated = forward_program_parts(run.request, program, shape, *mesh, run.target.platform, run.device_bytes)
        parts = {name: size for name, size in estimated.items() if name not in counted}
    share = min(1.0, max(0, most) / sum(parts.values()))
    return {name: int(size * share) for name, size in parts.items()}


def largest_part_sentence(parts: tuple[Part, ...], mesh_devices: int, target_devices: int, verdict: Verdict) -> str:
    """A sentence about the largest group of parts and, if the plan does not fit, about devices outside of the mesh."""
    groups: dict[str, list[Part]] = {}
    for part in parts:
        group = next((name for name, members in PART_GROUPS if part.name in members), part.name)
        groups.setdefault(group, []).append(part)
    sizes = {name: sum(part.size_bytes for part in members) for name, members in groups.items()}
    largest, size = max(sizes.items(), key=lambda item: item[1])
    certainties = " and ".join(dict.fromkeys(part.certainty for part in groups[largest]))
    sentence = (f"largest part: {largest}, {gib(size)}, {percent(size / max(1, verdict.peak_bytes), 0)} of the peak "
                f"({certainties})")
    if verdict.fits or mesh_devices == target_devices:
        return sentence
    # Idle devices come first: using them does not change the training.
    idle = target_devices - mesh_devices
    return f"{idle} of {target_devices} devices are idle: the mesh uses {mesh_devices}; {sentence}"
