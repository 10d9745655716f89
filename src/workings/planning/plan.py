"""The plan of a recipe on a target: verdict, parts, the culprit in one sentence, time, and the nearest plan that fits.

Where a compiler answers (TPU by libtpu, CPU by the engine on this machine) the verdict is ``compiled``; for a GPU that
is not here it is ``estimated`` by formula, and the reasons say so.
"""

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from workings.config.recipe import Recipe
from workings.engines.base import EngineRequest, Inspection
from workings.engines.registry import find_engine
from workings.errors import RequestError
from workings.hardware.catalog import Target
from workings.hardware.device import DeviceFacts
from workings.models.batch import Batch
from workings.models.shape import ModelShape
from workings.planning.compiling import compile_tpu
from workings.planning.parts import estimated_parts, estimated_peak, exact_parts
from workings.planning.request import engine_request, longest_batch, mesh_of
from workings.planning.seconds import step_seconds
from workings.planning.verdict import Verdict, gib, judge

JAX_GPU_SHARE = 0.75
"""Share of a card's memory that JAX takes for itself unless ``XLA_PYTHON_CLIENT_MEM_FRACTION`` says otherwise."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """One part of the memory of a device."""

    name: str
    size_bytes: int
    certainty: str
    """``exact``: from shapes, formats and mesh. ``estimated``: by formula. ``by proportion``: what the compiler needs
    beyond the exact parts, shared out in the proportion of the formulas, where it needs less than they say.
    ``unexplained``: what it needs more."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A verdict with its explanation."""

    recipe: str
    target: str
    verdict: Verdict
    reasons: tuple[str, ...]
    parts: tuple[Part, ...]
    culprit: str
    step_seconds: float | None
    batch: tuple[int, int, int]
    mesh: tuple[int, int]
    details: dict[str, Any]
    nearest: "Nearest | None" = None

    def as_json(self) -> dict[str, Any]:
        """Keys of ``plan --json``; what does not exist is left out."""
        values = self.verdict.as_json() | {
            "reasons": list(self.reasons), "target": self.target, "recipe": self.recipe, "batch": list(self.batch),
            "mesh": {"fsdp": self.mesh[0], "tp": self.mesh[1]},
            "parts": [vars(part) for part in self.parts], "culprit": self.culprit}
        if self.step_seconds is not None:
            values["step_seconds_estimate"] = self.step_seconds
        if self.nearest is not None:
            values["nearest"] = self.nearest.as_json()
        return values


@dataclass(frozen=True, kw_only=True)
class Nearest:
    """The plan that fits and changes least of what was asked."""

    overrides: tuple[str, ...]
    """The difference, as ``key=value`` words."""
    rows: int
    """Of the global batch; that of the plan as asked, unless its rows do not divide among the devices."""
    peak_bytes: int
    limit_bytes: int
    source: str
    tried: tuple[str, ...]
    """Candidates that were compiled and refused before."""

    def as_json(self) -> dict[str, Any]:
        """As a JSON value."""
        return {"overrides": list(self.overrides), "rows": self.rows, "peak_bytes": self.peak_bytes,
                "limit_bytes": self.limit_bytes, "source": self.source, "tried": list(self.tried)}


def make_plan(recipe: Recipe, shape: ModelShape, target: Target) -> Plan:
    """The plan of one recipe as it is.

    Args:
        recipe: what is asked for.
        shape: of its model.
        target: a machine of the catalog.

    Raises:
        RequestError: what is asked for does not go together, or the compiler for this target is not installed.
        WorkingsError: the compiler crashed.
    """
    if target.platform == "tpu" and recipe.engine != "jax":
        raise RequestError(f"engine: {recipe.engine} on {target.name}", "the engine that a TPU's compiler is asked for",
                           "engine=jax")
    if target.platform == "cpu":
        return _on_this_machine(recipe, shape, target)
    request = engine_request(recipe, shape, target)
    mesh = mesh_of(recipe, target)
    batch = longest_batch(recipe, mesh[0])
    if target.platform == "tpu":
        found = compile_tpu(request, batch, target)
    else:
        found = estimate(request, batch, mesh, target)
    return explain(recipe, request, batch, found, device_of(target, found, mesh), target)


def _on_this_machine(recipe: Recipe, shape: ModelShape, target: Target) -> Plan:
    fsdp = 1 if recipe.mesh.fsdp == "auto" else recipe.mesh.fsdp
    if fsdp * recipe.mesh.tp > 1:
        raise RequestError(f"mesh.fsdp x mesh.tp = {fsdp} x {recipe.mesh.tp} on cpu", "one device",
                           "mesh.fsdp=1 mesh.tp=1")
    request = engine_request(recipe, shape, target)
    batch = longest_batch(recipe, 1)
    engine = find_engine(recipe.engine).engine.open(request)
    return explain(recipe, request, batch, engine.inspect(_blank(batch)), engine.describe(), target)


def _blank(shape: tuple[int, int, int]) -> Batch:
    whole = np.zeros(shape, np.int32)
    return Batch(tokens=whole, targets=whole, weights=np.zeros(shape, np.float32), positions=whole, segment_ids=whole)


def device_of(target: Target, found: Inspection, mesh: tuple[int, int]) -> DeviceFacts:
    """The target as a device to judge against; the compiler's own limit where it named one."""
    limit, source = target.memory_bytes, target.memory_source
    if target.platform == "gpu":
        share = float(os.environ.get("XLA_PYTHON_CLIENT_MEM_FRACTION", JAX_GPU_SHARE))
        limit = int(limit * share)
        source = f"{share:.0%} of the card, which JAX takes for itself; {source}"
    if found.details.get("limit_bytes"):
        limit, source = int(found.details["limit_bytes"]), "the compiler"
    return DeviceFacts(
        platform=target.platform, kind=target.kind, count=mesh[0] * mesh[1], memory_limit_bytes=limit,
        memory_limit_source=source, mesh={"fsdp": mesh[0], "tp": mesh[1]}, versions=found.versions,
        reason=f"--on {target.name}")


def estimate(request: EngineRequest, batch: tuple[int, int, int], mesh: tuple[int, int],
             target: Target) -> Inspection:
    """A closed-form estimate in the form of an inspection."""
    parts = exact_parts(request, batch, *mesh) | estimated_parts(request, batch, *mesh, target.platform)
    return Inspection(peak_bytes=estimated_peak(request, batch, *mesh, target.platform), source="estimated",
                      breakdown=parts, versions={"formula": "1"}, details={})


def explain(recipe: Recipe, request: EngineRequest, batch: tuple[int, int, int], found: Inspection,
            device: DeviceFacts, target: Target) -> Plan:
    """Put the verdict, its parts and its reasons together."""
    mesh = (device.mesh["fsdp"], device.mesh["tp"])
    verdict = judge(found, device)
    parts = split_parts(request, batch, mesh, target.platform, found)
    used = mesh[0] * mesh[1]
    culprit = blame(parts, used, target.devices, verdict)
    reasons = [verdict.reasons[0], culprit]
    seconds, how = step_seconds(request, batch, target, used)
    if target.platform != "cpu":
        reasons.append(how)
    reasons += notes(recipe, target, found)
    return Plan(recipe=recipe.name, target=target.name, verdict=verdict, reasons=tuple(reasons), parts=parts,
                culprit=culprit, step_seconds=seconds, batch=batch, mesh=mesh, details=dict(found.details))


def split_parts(request: EngineRequest, batch: tuple[int, int, int], mesh: tuple[int, int], platform: str,
                found: Inspection) -> tuple[Part, ...]:
    """The peak in parts: exact ones from shapes, the others by formula, corrected where a compiler spoke."""
    parts = [Part(name=name, size_bytes=size, certainty="exact")
             for name, size in exact_parts(request, batch, *mesh).items()]
    inside = estimated_parts(request, batch, *mesh, platform)
    certainty, total = "estimated", sum(inside.values())
    rest = found.peak_bytes - sum(part.size_bytes for part in parts)
    if found.source != "estimated" and rest < total:
        # The compiler says how much there is, the formulas in which proportion.
        certainty, inside = "by proportion", {name: max(0, rest) * size // total for name, size in inside.items()}
    parts += [Part(name=name, size_bytes=size, certainty=certainty) for name, size in inside.items() if size]
    if rest > total:
        parts.append(Part(name="what no formula explains", size_bytes=rest - total, certainty="unexplained"))
    return tuple(parts)


def blame(parts: tuple[Part, ...], used: int, there: int, verdict: Verdict) -> str:
    """One sentence that names the culprit: devices that do nothing, or the largest part."""
    largest = max(parts, key=lambda part: part.size_bytes)
    share = largest.size_bytes / max(1, verdict.peak_bytes)
    sentence = (f"largest part: {largest.name}, {gib(largest.size_bytes)}, {share:.0%} of the peak "
                f"({largest.certainty})")
    if not verdict.fits and used < there:
        return f"{there - used} of {there} devices are idle: the mesh uses {used}; {sentence}"
    return sentence


def notes(recipe: Recipe, target: Target, found: Inspection) -> list[str]:
    """What else a person should know about this verdict."""
    said = []
    if "refused" in found.details:
        said.append(f"the compiler refused: {found.details['refused']}")
    elif found.source == "compiled" and target.platform == "tpu":
        said.append(f"compiler bound; each device's program takes tokens {found.details['tokens_per_device']} of the "
                    f"global batch {found.details['batch']}")
    if found.source == "estimated":
        said.append(f"estimated by formula: no compiler was asked for {target.name}; on a machine with the card, "
                    "`workings train` compiles the step and decides before any weight is loaded")
        said += _jax_share(found, target)
    number = recipe.precision.compute
    if number in target.no_matrix_units and target.platform != "tpu":
        said.append(f"{target.name} has no matrix units for {number}: fitting is not the same as being fast")
    asked = "gpu" if recipe.device == "cuda" else recipe.device
    if asked not in ("auto", target.platform):
        said.append(f"the recipe says device: {recipe.device}; to run it there: device={target.platform}")
    return said


def _jax_share(found: Inspection, target: Target) -> list[str]:
    """A card that is large enough once JAX is told to take more of it."""
    card = target.memory_bytes
    set_already = "XLA_PYTHON_CLIENT_MEM_FRACTION" in os.environ
    if set_already or not JAX_GPU_SHARE * card < found.peak_bytes <= 0.95 * card:
        return []
    return [f"95 % of the card would be {gib(int(0.95 * card))}: set XLA_PYTHON_CLIENT_MEM_FRACTION=0.95 for plan "
            "and train"]
