"""Load of this machine at a moment: memory, processors, NVIDIA GPUs. Read repeatedly while a run trains."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from workings.hardware.memory import host_memory

SECONDS_BETWEEN = 10.0
"""Between two looks. A look at cards starts a program, which takes a tenth of a second."""
_QUERY = {"utilization.gpu": "percent", "memory.used": "memory_bytes", "power.draw": "power_watts",
          "temperature.gpu": "celsius"}
"""Fields of `nvidia-smi` that are read for each GPU, and their names here."""
_MIB = 2**20


class MachineUse:
    """Looks at this machine; between two looks it remembers how long the processors had worked."""

    def __init__(self, root: Path = Path("/")) -> None:
        """``root`` is where ``proc`` hangs (tests give a folder)."""
        self._root = root
        self._before = _processor_ticks(root)

    def look(self) -> dict[str, float]:
        """Numbers by name; what the machine does not tell is left out.

        `host_memory_used_bytes`; `cpu_percent`, the share of all processors' time since the look before; of each card
        `gpu.0.percent`, `gpu.0.memory_bytes`, `gpu.0.power_watts`, `gpu.0.celsius`. They count everything that runs
        on the machine, no matter who started it.

        Raises:
            OSError, subprocess.SubprocessError: `nvidia-smi` cannot be started, or does not answer.
        """
        memory = host_memory(self._root)
        facts = {"host_memory_used_bytes": float(memory.limit_bytes - memory.available_bytes)}
        now, before = _processor_ticks(self._root), self._before
        # The kernel counts ticks since the start of the machine, so a share needs two looks; the first has none.
        if now and before and now[1] > before[1]:
            facts["cpu_percent"] = round(100 * (now[0] - before[0]) / (now[1] - before[1]), 1)
        self._before = now
        return facts | dict(_cards())


def _processor_ticks(root: Path) -> tuple[int, int] | None:
    """Busy time and total time of all processors together; None without the file of the system."""
    file = root / "proc/stat"
    if not file.is_file():
        return None
    # cpu user nice system idle iowait irq softirq steal (guests are counted in user already)
    ticks = [int(part) for part in file.read_text().split("\n", 1)[0].split()[1:9]]
    return sum(ticks) - sum(ticks[3:5]), sum(ticks)


def _cards() -> Iterator[tuple[str, float]]:
    if (program := shutil.which("nvidia-smi")) is None:
        return
    done = subprocess.run([program, f"--query-gpu={','.join(_QUERY)}", "--format=csv,noheader,nounits"], text=True,
                          capture_output=True, timeout=SECONDS_BETWEEN, check=False)
    for card, row in enumerate(done.stdout.splitlines()):
        for name, text in zip(_QUERY.values(), row.split(","), strict=False):
            # What a card does not report is "[N/A]".
            if text.strip().replace(".", "", 1).isdigit():
                yield f"gpu.{card}.{name}", float(text) * (_MIB if name == "memory_bytes" else 1)
