"""The NVIDIA driver and its GPUs, read with `nvidia-smi`; its table of processes is not read."""

import csv
import re
import shutil
import subprocess
from dataclasses import dataclass

QUERY_FIELDS = ("name", "compute_cap", "driver_version", "memory.total", "memory.free")
# A driver that is waking up a card takes seconds, and one that hangs never answers.
TIMEOUT_SECONDS = 60


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
    """Why there are no GPUs."""


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
