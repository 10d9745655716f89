"""NVIDIA cards: what `nvidia-smi` says of them, whether the installed PyTorch runs on them, and which build does.

`cuda_builds.json` has the published builds of PyTorch.
"""

import csv
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from packaging.version import Version

from workings.doctor.finding import Finding
from workings.hardware.memory import gib
from workings.hints import SETUP_CUDA

QUERY_FIELDS = ("name", "compute_cap", "driver_version", "memory.total", "memory.free")
# A driver that is waking up a card takes seconds, and one that hangs never answers.
TIMEOUT_SECONDS = 60
WHEEL = "torch"
"""Library whose wheel is compared with the cards: it brings machine code for some of them only."""
WHEEL_PROGRAM = Path(__file__).parents[1] / "engines" / "torch" / "build_probe.py"
"""Says what a PyTorch was built for; it needs nothing but PyTorch next to it."""
# Importing PyTorch and opening a card may take a minute from a cold disk.
TORCH_SECONDS = 120


@dataclass(frozen=True, kw_only=True)
class Card:
    """One card."""

    name: str
    capability: str
    """Compute capability, e.g. ``12.0``."""
    driver: str
    memory_bytes: int
    free_bytes: int


@dataclass(frozen=True, kw_only=True)
class Driver:
    """The driver's answer, or why none exists."""

    cards: tuple[Card, ...] = ()
    cuda: str = ""
    """Highest CUDA version that the driver supports."""
    failure: str = ""


def read_driver() -> Driver:
    """Ask the driver of this machine."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return Driver(failure="there is no nvidia-smi on this machine")
    try:
        rows = _ask(program, f"--query-gpu={','.join(QUERY_FIELDS)}", "--format=csv,noheader,nounits")
        return Driver(cards=parse_cards(rows), cuda=parse_cuda(_ask(program)))
    except subprocess.TimeoutExpired:
        return Driver(failure=f"nvidia-smi gave no answer within {TIMEOUT_SECONDS} s")
    # nvidia-smi explains its failures on standard output.
    except (subprocess.CalledProcessError, ValueError) as error:
        error_text = getattr(error, "stdout", "") or str(error)
        return Driver(failure=f"nvidia-smi failed: {' '.join(str(error_text).split())[:300]}")


def _ask(program: str, *arguments: str) -> str:
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=True,
                          timeout=TIMEOUT_SECONDS).stdout


def parse_cards(text: str) -> tuple[Card, ...]:
    """Rows of ``nvidia-smi --query-gpu=…``, memory in MiB. Raises ValueError for an invalid row."""
    cards = []
    # Read as CSV, because the name of a card may hold a comma.
    for row in csv.reader(text.strip().splitlines(), skipinitialspace=True):
        if len(row) != len(QUERY_FIELDS):
            raise ValueError(f"not a row of {', '.join(QUERY_FIELDS)}: {', '.join(row)[:200]!r}")
        name, capability, driver, total, free = (field.strip() for field in row)
        if not re.fullmatch(r"\d+\.\d+", capability):
            raise ValueError(f"not a compute capability: {capability[:40]!r}")
        cards.append(Card(name=name, capability=capability, driver=driver, memory_bytes=int(float(total) * 2**20),
                          free_bytes=int(float(free) * 2**20)))
    return tuple(cards)


def parse_cuda(text: str) -> str:
    """The CUDA version in the head of `nvidia-smi`'s table; empty where it has none."""
    # The query has no field for it; newer drivers write "CUDA UMD Version".
    match = re.search(r"CUDA(?: UMD)? Version:\s*(\d+\.\d+)", text)
    return match[1] if match else ""


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
    card = Version(capability)
    return any(code.major == card.major and code <= card for code in map(Version, architectures)) or any(
        code <= card for code in map(Version, ptx))


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


def choose(cards: Sequence[Card]) -> tuple[Build | None, tuple[str, ...]]:
    """The newest build that every card and its driver run, or None; and the reasons against newer ones."""
    reasons: list[str] = []
    for build in builds():
        # On all cards of the machine: which of them a run will use is not known here. Within a major version of CUDA an
        # older driver runs newer machine code.
        without = [card for card in cards if not runs_on(build.architectures, card.capability, build.ptx)]
        old = [card for card in cards if Version(card.driver).major < build.lowest_driver]
        if without:
            reasons.append(f"{build.tag}: holds no code for compute capability {without[0].capability} "
                           f"({without[0].name})")
        elif old:
            reasons.append(f"{build.tag}: CUDA {build.cuda} needs driver {build.lowest_driver} or newer, this one is "
                           f"{old[0].driver}")
        else:
            return build, tuple(reasons)
    return None, tuple(reasons)


def torch_wheel(*arguments: str) -> dict[str, Any]:
    """Build target of the installed PyTorch; empty without PyTorch."""
    # `-P` keeps the program's own folder, whose files have the names of standard modules, out of the way.
    done = subprocess.run([sys.executable, "-P", str(WHEEL_PROGRAM), *arguments], capture_output=True, text=True,
                          check=False, timeout=TORCH_SECONDS)
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
        yield Finding(id="driver", judgement="fine", why="wheels must suit the driver and the card",
                      what=f"{card.name}, compute capability {card.capability}, driver {card.driver} (CUDA "
                      f"{driver.cuda or 'unknown'}), {gib(card.free_bytes)} free of {gib(card.memory_bytes)}")
        # The driver itself always takes some; less than a tenth is not worth a note.
        if card.free_bytes < 0.9 * card.memory_bytes:
            yield Finding(id="card.memory", judgement="note", mend="nvidia-smi",
                          what=f"{gib(card.memory_bytes - card.free_bytes)} of {card.name} are in use", why="other "
                          "programs, a desktop among them, take memory that a plan for the whole card counts on")
    if wheel:
        yield from _wheel(wheel, driver)


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
    elif driver.cuda and Version(driver.cuda).major < Version(wheel["cuda"]).major:
        yield Finding(id="wheel.torch", judgement="problem", mend=SETUP_CUDA,
                      what=f"{built}; the driver supports CUDA {driver.cuda}",
                      why="a driver runs wheels for its CUDA major version and older ones")
    else:
        yield Finding(id="wheel.torch", judgement="fine", what=built, why=why)
