"""NVIDIA cards against the driver and against the wheels that are installed."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from workings.doctor.builds import compiled_for, runs_on, version_number
from workings.doctor.finding import Finding
from workings.doctor.nvidia import Card, Driver
from workings.hardware.catalog import targets
from workings.hardware.memory import gib
from workings.hints import SETUP_CUDA

WHEEL = "torch"
"""Library whose wheel is compared with the cards: it brings machine code for some of them only."""
# Importing PyTorch and opening a card may take a minute from a cold disk.
TIMEOUT_SECONDS = 120


def wheel_program() -> Path:
    """The file that says what a PyTorch was built for; it needs nothing but PyTorch next to it."""
    # Found without importing it: the engine imports PyTorch, which is what is to be examined.
    spec = find_spec("workings.engines")
    assert spec is not None
    assert spec.origin is not None  # it is a package of ours
    return Path(spec.origin).parent / "torch" / "build_probe.py"


def torch_wheel(python: str = sys.executable, *arguments: str) -> dict[str, Any]:
    """Build target of the PyTorch of a Python; empty without PyTorch.

    ``-P`` keeps the program's own folder, whose files have the names of standard modules, out of the way.
    """
    done = subprocess.run([python, "-P", str(wheel_program()), *arguments], capture_output=True, text=True,
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
        yield Finding(id="wheel.torch", judgement="note", what=built, mend=SETUP_CUDA,
                      why="engine: torch cannot use the card with it")
    elif strange:
        yield Finding(id="wheel.torch", judgement="problem", why=why, mend=SETUP_CUDA,
                      what=f"{built}; {strange[0].name} is sm_{strange[0].capability.replace('.', '')}")
    elif driver.cuda and version_number(driver.cuda)[0] < version_number(wheel["cuda"])[0]:
        yield Finding(id="wheel.torch", judgement="problem", mend=SETUP_CUDA,
                      what=f"{built}; the driver supports CUDA {driver.cuda}",
                      why="a driver runs wheels for its CUDA major version and older ones")
    else:
        yield Finding(id="wheel.torch", judgement="fine", what=built, why=why)
