"""The parts of a plan: they add up to its peak, the largest names the culprit, and the target is the run's device."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from workings.evidence.verify.checks.tensors import expected_tensors
from workings.evidence.verify.record import Unit
from workings.hardware.catalog import targets
from workings.hardware.memory import gib
from workings.planning.verdict import PART_GROUPS
from workings.record.layout import PLAN
from workings.record.number_text import percent

ROUNDING_BYTES = 2048
"""By so much parts may miss the peak: a rest below a kilobyte is left out, and shares are whole bytes."""
COMPILED = ("arguments", "outputs", "temporaries", "aliased", "sum", "compiler_peak")
"""What a compiler says of a program; further entries of a breakdown lie beside it, such as a teacher."""
NOT_ADDED = (*COMPILED, "code")
SIGNALS = {"sft": 0, "dpo": 1, "kto": 2, "orpo": 1, "simpo": 0}
"""Arrays of a batch beside those that every one has, by algorithm; of the others their settings decide."""
NUMBER_BYTES = 4
"""Bytes of one number of a batch."""
_CULPRIT = re.compile(r"(?:\d+ of \d+ devices are idle: the mesh uses \d+; )?largest part: (?P<name>.+), "
                      r"(?P<size>[\d.]+ \w+), (?P<share>\d+ %) of the peak \((?P<certainties>.+)\)")


def part_problems(unit: Unit, plan: Mapping[str, Any]) -> list[str]:
    """What parts, breakdown, culprit, reasons and target of a plan say against each other, and against the device.

    Args:
        unit: the run.
        plan: contents of `plan/plan.json`, with its peak a whole number.
    """
    parts = [part for part in plan.get("parts") or () if isinstance(part, dict)]
    problems, ours = [], unit.manifest.engine_distribution.name == "workings"
    if any(type(part.get("size_bytes")) is not int or not isinstance(part.get("name"), str) for part in parts):
        return [f"{PLAN}: a part without a name or a number of bytes"]
    total = sum(part["size_bytes"] for part in parts)
    # What an engine from elsewhere estimates need not be the sum of what it names; on a card that was too small,
    # PyTorch's allocator had to give back what is in the parts.
    gave_back = plan.get("source") == "traced" and unit.manifest.device.platform == "gpu"
    off = plan["peak_bytes"] - total
    if parts and ours and not -(math.inf if gave_back else ROUNDING_BYTES) <= off <= ROUNDING_BYTES:
        problems.append(f"{PLAN}: its parts add up to {total:,}, its peak is {plan['peak_bytes']:,}")
    problems += _breakdown_problems(plan)
    problems += _culprit_problems(unit, plan, parts)
    if ours:
        problems += _target_problems(unit, plan)
        problems += _exact_part_problems(unit, plan, parts)
    return problems


def _breakdown_problems(plan: Mapping[str, Any]) -> list[str]:
    """What the compiler says: a sum of the others, and the peak is it or the compiler's own, with what lies beside."""
    sizes = plan.get("breakdown")
    if not isinstance(sizes, dict) or not all(type(sizes.get(name)) is int for name in COMPILED):
        return []  # traced or by formula: its entries are the parts
    total = sizes["arguments"] + sizes["outputs"] + sizes["temporaries"] - sizes["aliased"]
    if sizes["sum"] != total:
        return [f"{PLAN}: breakdown.sum is {sizes['sum']:,}, arguments, outputs and temporaries without aliased ones "
                f"are {total:,}"]
    beside = sum(size for name, size in sizes.items() if name not in NOT_ADDED and type(size) is int)
    # Beside other programs than the step lies what only they do not hold: moments, say.
    if plan.get("program", "step") == "step" and plan["peak_bytes"] != max(total, sizes["compiler_peak"]) + beside:
        return [f"{PLAN}: peak_bytes is {plan['peak_bytes']:,}, its breakdown says "
                f"{max(total, sizes['compiler_peak']) + beside:,}"]
    return []


def _culprit_problems(unit: Unit, plan: Mapping[str, Any], parts: Sequence[Mapping[str, Any]]) -> list[str]:
    """The culprit is the largest group of parts, with its size, its share and how it is known; a reason repeats it."""
    culprit = str(plan.get("culprit") or "")
    reasons = [str(reason) for reason in plan.get("reasons") or ()]
    match = _CULPRIT.fullmatch(culprit)
    if match is None or not parts:  # in the words of another version
        return []
    problems = [f"{PLAN}: a reason is {reason[:80]!r}, the culprit is {culprit[:80]!r}"
                for reason in reasons if "largest part: " in reason and reason != culprit]
    if culprit not in reasons:
        problems.append(f"{PLAN}: none of its reasons is the culprit, {culprit[:80]!r}")
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for part in parts:
        group = next((name for name, members in PART_GROUPS if part["name"] in members), part["name"])
        groups.setdefault(group, []).append(part)
    sizes = {name: sum(part["size_bytes"] for part in members) for name, members in groups.items()}
    precision = (unit.manifest.config.get("precision") or {}).get("parameters")
    name = match["name"].removesuffix(f" in {precision}")
    if name not in sizes or sizes[name] != max(sizes.values()):
        return [*problems, f"{PLAN}: the culprit is {name[:40]!r}, the largest part is "
                           f"{max(sizes, key=lambda key: sizes[key])[:40]!r}"]
    certainties = " and ".join(dict.fromkeys(str(part.get("certainty")) for part in groups[name]))
    expected = (gib(sizes[name]), percent(sizes[name] / max(1, plan["peak_bytes"]), 0), certainties)
    if (match["size"], match["share"], match["certainties"]) != expected:
        problems.append(f"{PLAN}: the culprit is {culprit[:80]!r}, its parts give {', '.join(expected)[:60]}")
    return problems


def _exact_part_problems(unit: Unit, plan: Mapping[str, Any], parts: Sequence[Mapping[str, Any]]) -> list[str]:
    """Weights, moments and batch that the compiler counted, against what the recipe gives.

    On a processor alone, weights and moments on one: several devices share them unevenly, accelerators pad them, and
    engines pack four bits in ways of their own.
    """
    device, sizes = unit.manifest.device, dict[str, int]()
    # Another program has a batch of its own.
    if plan.get("source") != "compiled" or plan.get("program", "step") != "step" or device.platform != "cpu":
        return []
    # Imported here: other records need no formulas, which bring NumPy.
    from workings.planning.memory_formulas import BATCH_ARRAYS
    from workings.planning.tensors import PER_LAYER_TABLE

    expected = expected_tensors(unit) if device.count == 1 else ""
    if not isinstance(expected, str):
        sizes |= expected.exact_bytes(unit.manifest.parameters)
    if any(part["name"] == PER_LAYER_TABLE for part in parts):
        sizes.pop("parameters", None)  # the table is a part of its own
    algorithm, batch = unit.manifest.config.get("algorithm"), plan.get("batch")
    signals = SIGNALS.get(algorithm.get("name", "")) if isinstance(algorithm, dict) else None
    if signals is not None and isinstance(batch, list) and [type(size) for size in batch] == [int] * 3:
        rows = batch[0] * batch[1] // max(1, unit.manifest.device.mesh.get("fsdp", 1))
        sizes["batch"] = (BATCH_ARRAYS + signals) * NUMBER_BYTES * rows * batch[2]
    return [f"{PLAN}: {part['name']} take {part['size_bytes']:,} bytes, by the recipe {sizes[part['name']]:,}"
            for part in parts if part.get("certainty") == "exact"
            and sizes.get(part["name"], part["size_bytes"]) != part["size_bytes"]]


def _target_problems(unit: Unit, plan: Mapping[str, Any]) -> list[str]:
    """The machine that was planned for is the run's device, by its name in the catalog or its own."""
    device, target = unit.manifest.device, plan.get("target")
    if target is None:
        return []
    rows = [row for row in targets().values() if row.platform == device.platform
            and (device.platform == "cpu" or row.kind == device.kind)]
    expected = {*(row.name for row in rows if row.platform != "cpu" or row.devices == device.count),
                *(f"{device.count} x {name}" for name in [*(row.name for row in rows), device.kind])}
    return [] if target in expected else [
        f"{PLAN}: planned for {str(target)[:40]!r}, the run took place on {device.count} x {device.kind[:40]}"]
