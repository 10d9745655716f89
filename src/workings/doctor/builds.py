"""Builds of PyTorch with the GPUs and drivers that they run on, from `cuda_builds.json`."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from workings.doctor.nvidia import Card


@dataclass(frozen=True, kw_only=True)
class Build:
    """One published build."""

    tag: str
    cuda: str
    torch: str
    architectures: tuple[str, ...]
    ptx: tuple[str, ...]
    lowest_driver: int
    index: str
    """Package index for pip."""


@cache
def builds() -> tuple[Build, ...]:
    """All builds, newest CUDA first."""
    data: dict[str, Any] = json.loads(files("workings.doctor").joinpath("cuda_builds.json").read_text("utf-8"))
    return tuple(Build(**row | {"architectures": tuple(row["architectures"]), "ptx": tuple(row["ptx"]),
                                "index": data["index"].format(tag=row["tag"])}) for row in data["builds"])


def runs_on(architectures: Iterable[str], capability: str, ptx: Iterable[str] = ()) -> bool:
    """Whether machine code for some compute capabilities runs on a card of another one.

    Code runs on cards of the same major version and of the same or a higher minor one; intermediate code is compiled by
    the driver for any newer card.
    """
    card = version_number(capability)
    code = [version_number(name) for name in architectures]
    return any(have[0] == card[0] and have[1] <= card[1] for have in code) or any(
        version_number(name) <= card for name in ptx)


def compiled_for(names: Iterable[str]) -> tuple[list[str], list[str]]:
    """``sm_90``, ``compute_120`` as ``torch.cuda.get_arch_list`` has them -> capabilities of code and of PTX."""
    code: list[str] = []
    ptx: list[str] = []
    for name in names:
        kind, _, digits = name.partition("_")
        # `sm_90a` and `sm_120f` are variants of the same capability with further instructions.
        digits = digits.rstrip("af")
        if digits.isdigit() and len(digits) > 1:
            # The last digit is the minor version, however many come before it: `sm_120` is 12.0.
            (code if kind == "sm" else ptx).append(f"{digits[:-1]}.{digits[-1]}")
    return code, ptx


def choose(cards: Sequence[Card], driver_cuda: str, candidates: Sequence[Build] | None = None,
           ) -> tuple[Build | None, tuple[str, ...]]:
    """The newest build that every card and the driver run, or None; and the reasons against newer ones.

    Args:
        cards: of this machine; a build must run on all of them.
        driver_cuda: CUDA version that the driver says it supports.
        candidates: builds to choose from, newest first; the published ones if not given.
    """
    reasons: list[str] = []
    # Newest first, and every build that is refused gives its reason: "none fits" alone could not be acted on.
    for build in candidates if candidates is not None else builds():
        # On all cards of the machine: which of them a run will use is not known here.
        without = [card for card in cards if not runs_on(build.architectures, card.capability, build.ptx)]
        old = [card for card in cards if version_number(card.driver)[0] < build.lowest_driver]
        if without:
            reasons.append(f"{build.tag}: holds no code for compute capability {without[0].capability} "
                           f"({without[0].name})")
        elif old:
            reasons.append(f"{build.tag}: CUDA {build.cuda} needs driver {build.lowest_driver} or newer, this one is "
                           f"{old[0].driver}")
        # Within a major version an older driver runs newer machine code, but its compiler does not know newer PTX.
        elif driver_cuda and version_number(driver_cuda) < version_number(build.cuda) and \
                any(not runs_on(build.architectures, card.capability) for card in cards):
            reasons.append(f"{build.tag}: the driver's CUDA {driver_cuda} is older than {build.cuda} and cannot "
                           "compile its intermediate code")
        else:
            return build, tuple(reasons)
    return None, tuple(reasons)


def version_number(version: str) -> tuple[int, ...]:
    """The first two parts of a version: `12.8` is (12, 8)."""
    return tuple(int(part) for part in version.split(".")[:2])
