"""What the peak is made of, and the culprit in one sentence.

`exact`: from the program's own arrays and where they lie. `assigned`: the address space of the program's heap, where
the compiler wrote down which array lies where. `by difference`: a straight line through two shallow models, where the
compiler refused the whole one. `traced`: tensors alive at a trace's peak. `estimated`: by formula, where nobody
spoke. `assumed`: a round figure for what no trace sees, such as a CUDA context. `unexplained`: the rest.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from workings.engines.base import EngineRequest, Inspection, MeshShape, ProgramName, ProgramShape
from workings.hardware.memory import gib
from workings.planning.frozen import REFERENCE, TEACHER
from workings.planning.parts import exact_parts
from workings.planning.phases import estimated_parts
from workings.planning.tensors import PER_LAYER_TABLE, table_bytes
from workings.planning.verdict import GROUPS, Verdict
from workings.record.number_text import percent

UNEXPLAINED = "everything else"
NEGLIGIBLE = 1024
"""Bytes below which a rest is rounding."""
FROZEN = (REFERENCE, TEACHER)
"""Models that lie beside the one that is trained."""
UNNAMED = "other temporaries"
"""Arrays of the heap that no rule names."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """One part of the memory of a device."""

    name: str
    size_bytes: int
    certainty: str
    """One of the words that the module's docstring explains."""


def split_parts(request: EngineRequest, batch: ProgramShape, mesh: MeshShape, platform: str,
                inspection: Inspection, program: ProgramName = "step",
                difference: Mapping[str, int] | None = None) -> tuple[Part, ...]:
    """The peak of one program in parts, which add up to it.

    Args:
        request: what the engine was asked for.
        batch: of the program.
        mesh: sizes of ``fsdp`` and ``tp``.
        platform: of the target.
        inspection: what the compiler or the formula said.
        program: which one.
        difference: parts of a refused step by two shallow models.
    """
    if inspection.source == "traced":
        return tuple(Part(name=name, size_bytes=size, certainty="assumed" if name in inspection.assumed else "traced")
                     for name, size in inspection.breakdown.items())
    if inspection.source == "estimated":
        known = {*exact_parts(request, batch, *mesh), *inspection.exact}
        return tuple(Part(name=name, size_bytes=size, certainty="exact" if name in known else "estimated")
                     for name, size in inspection.breakdown.items() if size)
    # Gradients are none of the program's arguments: they lie in the heap, which is looked at below.
    exact = with_table(inspection.exact, request, mesh, program) or {
        name: size for name, size in exact_parts(request, batch, *mesh).items() if not name.startswith("gradient")
    } | {name: inspection.breakdown[name] for name in FROZEN if name in inspection.breakdown}
    parts = [Part(name=name, size_bytes=size, certainty="exact") for name, size in exact.items()]
    if inspection.heap:
        parts += [Part(name=name, size_bytes=size, certainty="assigned") for name, size in inspection.heap.items()
                  if name != UNNAMED]
    elif difference:
        parts += [Part(name=name, size_bytes=size, certainty="by difference") for name, size in difference.items()
                  if name != UNNAMED]
    elif program == "step":
        # Nobody says what lies in this heap, but gradients have the sizes of what is trained.
        gradients = {name: size for name, size in exact_parts(request, batch, *mesh).items()
                     if name.startswith("gradient")}
        parts += [Part(name=name, size_bytes=size, certainty="exact") for name, size in gradients.items()]
        if not inspection.refused:
            parts += _by_proportion(request, batch, mesh, platform, inspection.peak_bytes - _total(parts))
    rest = inspection.peak_bytes - _total(parts)
    # Taken from the rest, so that the parts still add up to the peak.
    if code := min(max(0, rest), inspection.breakdown.get("code", 0)):
        parts.append(Part(name="code of the program", size_bytes=code, certainty="exact"))
        rest -= code
    if abs(rest) >= NEGLIGIBLE:
        parts.append(Part(name=UNEXPLAINED, size_bytes=rest, certainty="unexplained"))
    return tuple(part for part in parts if part.size_bytes)


def with_table(parts: Mapping[str, int], request: EngineRequest, mesh: MeshShape,
               program: ProgramName) -> dict[str, int]:
    """A compiled program's parts, with per-layer embeddings beside the parameters among which it counts them."""
    table = table_bytes(request, *mesh)
    # While a teacher is asked, the parameters are its own, and the request is the student's.
    if not table or program == TEACHER or "parameters" not in parts:
        return dict(parts)
    return {"parameters": parts["parameters"] - table, PER_LAYER_TABLE: table} | {
        name: size for name, size in parts.items() if name != "parameters"}


def _total(parts: list[Part]) -> int:
    return sum(part.size_bytes for part in parts)


def _by_proportion(request: EngineRequest, batch: ProgramShape, mesh: MeshShape, platform: str,
                   rest: int) -> list[Part]:
    """Where a compiler said how much there is and not what: shared out in the proportion of the formulas."""
    inside = {name: size for name, size in estimated_parts(request, batch, *mesh, platform).items()
              if name != "gradients"}
    total = sum(inside.values())
    # Formulas are scaled down only: what they do not reach stays unexplained.
    share = min(1.0, max(0, rest) / total)
    return [Part(name=name, size_bytes=int(size * share), certainty="by proportion") for name, size in inside.items()]


def unexplained_share(parts: tuple[Part, ...], peak: int) -> float:
    """Share of the peak that no part explains."""
    # The rest is below zero where parts were counted that share their memory.
    return sum(abs(part.size_bytes) for part in parts if part.certainty == "unexplained") / max(1, peak)


def largest_part(parts: tuple[Part, ...], used: int, there: int, verdict: Verdict, *, parameters: str = "") -> str:
    """One sentence that names the culprit: devices that do nothing, or what takes the most memory.

    Args:
        parts: of the peak.
        used: devices of the mesh.
        there: devices of the target.
        verdict: about the program that needs the most.
        parameters: number format of the stored weights.
    """
    sizes: dict[str, list[Part]] = {}
    for part in parts:
        group = next((name for name, members in GROUPS if part.name in members), part.name)
        sizes.setdefault(group, []).append(part)
    largest = max(sizes, key=lambda name: sum(part.size_bytes for part in sizes[name]))
    size = sum(part.size_bytes for part in sizes[largest])
    certainties = " and ".join(dict.fromkeys(part.certainty for part in sizes[largest]))
    what = f"{largest} in {parameters}" if largest == "parameters" and parameters else largest
    sentence = (f"largest part: {what}, {gib(size)}, "
                f"{percent(size / max(1, verdict.peak_bytes), 0)} of the peak ({certainties})")
    # Idle devices come first: to use them changes nothing of what was asked.
    if not verdict.fits and used < there:
        return f"{there - used} of {there} devices are idle: the mesh uses {used}; {sentence}"
    return sentence
