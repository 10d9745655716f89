"""NVIDIA cards: what `nvidia-smi` says about them, and which build of PyTorch runs on them.

The published builds are in `cuda_builds.json`.
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
TIMEOUT_SECONDS = 60
"""Most seconds that the driver may take; to wake up a card it needs some."""
WHEEL = "torch"
"""Library whose wheel has machine code for some cards only."""
WHEEL_PROGRAM = Path(__file__).parents[1] / "engines" / "torch" / "build_probe.py"
"""Program that prints what the installed PyTorch was built for. It imports nothing else."""
TORCH_SECONDS = 120
"""Most seconds of that program; importing PyTorch from a slow disk takes a minute."""


@dataclass(frozen=True, kw_only=True)
class Card:
    """A card of this machine."""

    name: str
    capability: str
    """Compute capability, e.g. ``12.0``."""
    driver: str
    memory_bytes: int
    free_bytes: int


@dataclass(frozen=True, kw_only=True)
class Driver:
    """What the driver says about this machine's cards, or why it says nothing."""

    cards: tuple[Card, ...] = ()
    cuda: str = ""
    """Highest CUDA version that the driver supports."""
    failure: str = ""


def read_driver() -> Driver:
    """Ask this machine's driver, with `nvidia-smi`."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return Driver(failure="there is no nvidia-smi on this machine")
    try:
        rows = _ask(program, f"--query-gpu={','.join(QUERY_FIELDS)}", "--format=csv,noheader,nounits")
        return Driver(cards=parse_cards(rows), cuda=parse_cuda(_ask(program)))
    except subprocess.TimeoutExpired:
        return Driver(failure=f"nvidia-smi gave no answer within {TIMEOUT_SECONDS} s")
    except (subprocess.CalledProcessError, ValueError) as error:
        text = getattr(error, "stdout", "") or str(error)  # nvidia-smi prints its errors to standard output
        return Driver(failure=f"nvidia-smi failed: {' '.join(str(text).split())[:300]}")


def _ask(program: str, *arguments: str) -> str:
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=True,
                          timeout=TIMEOUT_SECONDS).stdout


def parse_cards(text: str) -> tuple[Card, ...]:
    """The cards in the output of ``nvidia-smi --query-gpu``. Raises ``ValueError`` for an invalid row."""
    cards = []
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
    """The CUDA version in the head of `nvidia-smi`'s table; empty if it has none."""
    # Newer drivers write "CUDA UMD Version".
    match = re.search(r"CUDA(?: UMD)? Version:\s*(\d+\.\d+)", text)
    return match[1] if match else ""


@dataclass(frozen=True, kw_only=True)
class Build:
    """A published build of PyTorch."""

    tag: str
    cuda: str
    torch: str
    architectures: tuple[str, ...]
    ptx: tuple[str, ...]
    lowest_driver: int
    index: str


@cache
def builds() -> tuple[Build, ...]:
    """All builds, the newest CUDA first."""
    data: dict[str, Any] = json.loads(files("workings.doctor").joinpath("cuda_builds.json").read_text("utf-8"))
    return tuple(Build(**row | {"architectures": tuple(row["architectures"]), "ptx": tuple(row["ptx"]),
                                "index": data["index"].format(tag=row["tag"])}) for row in data["builds"])


def runs_on(architectures: Iterable[str], capability: str, ptx: Iterable[str] = ()) -> bool:
    """Whether machine code or PTX for some compute capabilities runs on a card with another one.

    Machine code runs on newer cards of the same major version; the driver compiles PTX for any newer card.
    """
    card = Version(capability)
    has_machine_code = any(code.major == card.major and code <= card for code in map(Version, architectures))
    return has_machine_code or any(code <= card for code in map(Version, ptx))


def compiled_for(names: Iterable[str]) -> tuple[list[str], list[str]]:
    """Capabilities of machine code (``sm_90``: 9.0) and of PTX (``compute_120``: 12.0) in PyTorch's ``names``."""
    code: list[str] = []
    ptx: list[str] = []
    for name in names:
        kind, _, digits = name.partition("_")
        digits = digits.rstrip("af")  # `sm_90a` and `sm_120f` have further instructions
        capabilities = code if kind == "sm" else ptx
        if digits.isdigit() and len(digits) > 1:
            capabilities.append(f"{digits[:-1]}.{digits[-1]}")
    return code, ptx


def choose(cards: Sequence[Card]) -> tuple[Build | None, tuple[str, ...]]:
    """The newest build that runs on all cards, or None; and the reasons against newer builds."""
    reasons: list[str] = []
    for build in builds():
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
    """`version`, `cuda` (empty: CPU only) and `architectures` of the installed PyTorch; empty without PyTorch."""
    # `-P`: the program's folder is not on the path, because its files have names of standard modules.
    done = subprocess.run([sys.executable, "-P", str(WHEEL_PROGRAM), *arguments], capture_output=True, text=True,
                          check=False, timeout=TORCH_SECONDS)
    # The last line is the result; libraries may print warnings before it.
    lines = done.stdout.strip().splitlines()
    return dict(json.loads(lines[-1])) if lines and lines[-1].startswith("{") else {}


def check_cards(driver: Driver, present: Mapping[str, str], wheel: Mapping[str, Any]) -> Iterator[Finding]:
    """Findings about driver, cards and PyTorch's ``wheel``; ``present`` are the accelerators of this machine."""
    if "gpu" not in present and not driver.cards:
        return
    if driver.failure or not driver.cards:
        yield Finding(id="driver", judgement="problem", why="without its driver a card computes nothing",
                      what=f"{present.get('gpu', 'a card')} is there, but {driver.failure or 'the driver lists none'}",
                      mend="install NVIDIA's driver, then: nvidia-smi")
        return
    for card in driver.cards:
        yield Finding(id="driver", judgement="fine", why="wheels must suit the driver and the card",
                      what=f"{card.name}, compute capability {card.capability}, driver {card.driver} (CUDA "
                      f"{driver.cuda or 'unknown'}), {gib(card.free_bytes)} free of {gib(card.memory_bytes)}")
        if card.free_bytes < 0.9 * card.memory_bytes:
            yield Finding(id="card.memory", judgement="note", mend="nvidia-smi",
                          what=f"{gib(card.memory_bytes - card.free_bytes)} of {card.name} are in use", why="other "
                          "programs, a desktop among them, take memory that a plan for the whole card counts on")
    if wheel:
        yield from _wheel(wheel, driver)


def _wheel(wheel: Mapping[str, Any], driver: Driver) -> Iterator[Finding]:
    why = "a wheel without the card's architecture imports well and dies at the first kernel"
    hardware = f"CUDA {wheel['cuda']}: {' '.join(wheel['architectures'])}" if wheel["cuda"] else "the CPU only"
    built = f"torch {wheel['version']}, built for {hardware}"
    code, ptx = compiled_for(wheel["architectures"])
    strange = [card for card in driver.cards if not runs_on(code, card.capability, ptx)]
    # A note, because a wheel for the CPU does not matter to the other engines.
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
