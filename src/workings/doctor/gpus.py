"""NVIDIA cards against the driver and against the wheels that are installed."""

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from workings.doctor.finding import Finding
from workings.doctor.nvidia import Card, Driver
from workings.hardware.catalog import targets
from workings.hardware.memory import gib
from workings.hints import TORCH_FOR_THIS_CARD

WHEEL = "torch"
"""Library whose wheel is compared with the cards: it brings machine code for some of them only."""
# Importing PyTorch and opening a card may take a minute from a cold disk.
TIMEOUT_SECONDS = 120


def torch_wheel() -> dict[str, Any]:
    """Build target of the installed PyTorch, asked in a child process; empty without PyTorch."""
    done = subprocess.run([sys.executable, "-m", "workings.engines.torch_build"], capture_output=True, text=True,
                          check=False, timeout=TIMEOUT_SECONDS)
    # Libraries may print warnings first; the answer is the last line, and a crash leaves none.
    lines = done.stdout.strip().splitlines()
    facts: dict[str, Any] = json.loads(lines[-1]) if lines and lines[-1].startswith("{") else {}
    return facts


def check_cards(driver: Driver, present: Mapping[str, str], wheel: Mapping[str, Any]) -> Iterator[Finding]:
    """Findings about driver, cards and PyTorch's wheel; none where there is no sign of a card.

    Args:
        driver: what it said.
        present: accelerators of this machine.
        wheel: of `torch_wheel`; empty where PyTorch is not installed.
    """
    if "gpu" not in present and not driver.cards:
        return
    # Without a driver nothing can be said about wheels, so this finding ends the list.
    if driver.failure or not driver.cards:
        yield Finding(id="driver", judgement="problem", why="without its driver a card computes nothing",
                      what=f"{present.get('gpu', 'a card')} is there, but {driver.failure or 'the driver lists none'}",
                      mend="install NVIDIA's driver, then: nvidia-smi")
        return
    for card in driver.cards:
        yield from _card(card, driver.cuda)
    if wheel:
        yield from _wheel(wheel, driver)


def _card(card: Card, cuda: str) -> Iterator[Finding]:
    # A card that the catalog does not know is judged by its capability alone.
    row = next((row for row in targets().values() if row.kind == card.name), None)
    lowest = row.lowest_cuda if row else ""
    what = (f"{card.name}, compute capability {card.capability}, driver {card.driver} (CUDA {cuda or 'unknown'}), "
            f"{gib(card.free_bytes)} free of {gib(card.memory_bytes)}")
    if lowest and cuda and version_number(cuda) < version_number(lowest):
        yield Finding(id="driver", judgement="problem", what=f"{what}; this card needs CUDA {lowest}",
                      why="an older driver does not know this card's code", mend="update NVIDIA's driver")
    else:
        yield Finding(id="driver", judgement="fine", what=what, why="wheels must suit the driver and the card")
    # The driver itself always takes some; less than a tenth is not worth a note.
    if card.free_bytes < 0.9 * card.memory_bytes:
        yield Finding(id="card.memory", judgement="note", mend="nvidia-smi",
                      what=f"{gib(card.memory_bytes - card.free_bytes)} of {card.name} are in use",
                      why="other programs, a desktop among them, take memory that a plan for the whole card counts on")


def _wheel(wheel: Mapping[str, Any], driver: Driver) -> Iterator[Finding]:
    why = "a wheel without the card's architecture imports well and dies at the first kernel"
    built = f"torch {wheel['version']}, built for " + (
        f"CUDA {wheel['cuda']}: {' '.join(wheel['architectures'])}" if wheel["cuda"] else "the CPU only")
    code, ptx = compiled_for(wheel["architectures"])
    strange = [card for card in driver.cards if not runs_on(code, card.capability, ptx)]
    # A wheel for the CPU is not a mistake where the other engine is used, so it is worth a note only.
    if not wheel["cuda"]:
        yield Finding(id="wheel.torch", judgement="note", what=built, mend=TORCH_FOR_THIS_CARD,
                      why="engine: torch cannot use the card with it")
    elif strange:
        yield Finding(id="wheel.torch", judgement="problem", why=why, mend=TORCH_FOR_THIS_CARD,
                      what=f"{built}; {strange[0].name} is sm_{strange[0].capability.replace('.', '')}")
    elif driver.cuda and version_number(driver.cuda)[0] < version_number(wheel["cuda"])[0]:
        yield Finding(id="wheel.torch", judgement="problem", mend=TORCH_FOR_THIS_CARD,
                      what=f"{built}; the driver supports CUDA {driver.cuda}",
                      why="a driver runs wheels for its CUDA major version and older ones")
    else:
        yield Finding(id="wheel.torch", judgement="fine", what=built, why=why)


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


def version_number(version: str) -> tuple[int, ...]:
    """The first two parts of a version: `12.8` is (12, 8)."""
    return tuple(int(part) for part in version.split(".")[:2])
