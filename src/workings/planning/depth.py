"""From two shallow models to a deep one: what a step needs grows in a straight line with the number of layers.

Used where the compiler refuses the whole model and says no more than how much it wanted.
"""

from collections.abc import Mapping
from dataclasses import replace

from workings.engines.base import EngineRequest
from workings.hardware.catalog import Target
from workings.planning.compiling import compile_programs
from workings.planning.request import Programs

SCANNED = 5
"""Fewest layers that the engine compiles as a loop; fewer are written out, which is another program."""


def depths(layers: int, pattern: int) -> tuple[int, int]:
    """Two numbers of layers that the engine scans, with whole turns of a pattern of sliding and global layers."""
    turn = max(1, pattern)
    shallow = -(-SCANNED // turn) * turn
    return shallow, min(layers, shallow + -(-3 // turn) * turn)


def line(shallow: tuple[int, float], deeper: tuple[int, float], layers: int) -> int:
    """Where the straight line through two measurements (layers, bytes) is at another number of layers."""
    (first, low), (second, high) = shallow, deeper
    return int(low + (high - low) * (layers - first) / (second - first))


def refused_parts(request: EngineRequest, batch: tuple[int, int, int], target: Target) -> dict[str, int]:
    """What lies in the heap of a step that the compiler refused, from two models of the same sizes with few layers.

    Empty where even those are refused, or the model is no deeper than they are.
    """
    first, second = depths(request.shape.layers, request.shape.sliding_pattern)
    if second <= first or request.shape.layers <= second:
        return {}
    heaps: list[Mapping[str, int]] = []
    for layers in (first, second):
        shallow = replace(request, shape=replace(request.shape, layers=layers))
        programs: Programs = {"step": batch}
        found = compile_programs(shallow, programs, target)["step"]
        if "heap" not in found.details:
            return {}
        heaps.append(found.details["heap"])
    return {name: max(0, line((first, heaps[0].get(name, 0)), (second, heaps[1].get(name, 0)), request.shape.layers))
            for name in {**heaps[0], **heaps[1]}}
