"""What a part of the day is: rows with names, each measured in its own process."""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from workings.engines.gpu_settings import same_kernels
from workings.hardware.catalog import targets

XLA_TIMED = "--xla_gpu_autotune_level=4"
"""With which XLA times kernels for a GPU and takes the fastest, as it does of itself; the product does not let it."""
XLA_UNTIMED = "--xla_gpu_autotune_level=0"
XLA_CHOICES = {"kernels not timed": f"{XLA_UNTIMED} --xla_gpu_enable_triton_gemm=true",
               "kernels not timed, all products by cuBLAS": same_kernels("")}
"""Ways in which XLA chooses kernels without timing, so that every run has the same. The last one is the product's."""


class Absent(Exception):
    """A row that this machine cannot have, and why, as a clause: a peer that is not installed, a missing library."""


@dataclass(frozen=True, kw_only=True)
class Chip:
    """What every row is told about the accelerator."""

    platform: str
    """`gpu`, `tpu`, or `cpu` for trying this out."""
    kind: str = ""
    """The device's own name; empty where no engine could open it."""
    memory_bytes: int = 0
    """What one device offers; 0 where no engine could open it."""
    tiny: bool = False
    """Small models everywhere: to see that every line of this runs."""
    only: tuple[str, ...] = ()
    """Engines that rows are made for; empty: all that drive the platform."""

    @property
    def engines(self) -> tuple[str, ...]:
        """Engines that drive it."""
        every = ("jax",) if self.platform == "tpu" else ("jax", "torch")
        return tuple(name for name in every if not self.only or name in self.only)

    @property
    def peak_flops(self) -> float:
        """Peak operations a second in bf16 by the catalog; 0 where it does not know the device."""
        return max((target.rates_tflops.get("bf16", 0.0) * 1e12 for target in targets().values()
                    if target.kind == self.kind), default=0.0)

    def as_json(self) -> dict[str, Any]:
        """For the process that measures a row."""
        return asdict(self) | {"only": list(self.only)}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Chip":
        """What `as_json` wrote."""
        return cls(**values | {"only": tuple(values["only"])})


@dataclass(frozen=True, kw_only=True)
class Part:
    """One kind of question. A row's result is a dict of JSON values; ``holds`` in it says whether a goal is met."""

    name: str
    shows: str
    """What its rows show, as a sentence."""
    needs: tuple[str, ...]
    """Modules without which no row can be measured."""
    rows: Callable[[Chip], Sequence[str]]
    """Names of its rows on this chip, in order."""
    run: Callable[[str, Chip, Path], dict[str, Any]]
    """Measures one row. The folder is this part's own, kept between rows, and not part of the evidence."""
    told: tuple[str, ...]
    """Keys of a result that the table shows."""
    alone: Callable[[str], bool] = field(default=lambda row: False)
    """Rows that are measured while nothing else runs: seconds count, or all of the chip's memory."""

    def measure(self, row: str, chip: Chip, folder: Path) -> dict[str, Any]:
        """One row, or `Absent` where a module that it needs is not installed."""
        require(*self.needs)
        folder.mkdir(parents=True, exist_ok=True)
        return self.run(row, chip, folder)


def ask(*words: str, codes: tuple[int, ...] = (0,)) -> str:
    """What a command of `workings` prints. Raises `RuntimeError` where it ends with another exit code."""
    done = subprocess.run([sys.executable, "-m", "workings", *words], capture_output=True, text=True, check=False)
    if done.returncode not in codes:
        raise RuntimeError(f"workings {' '.join(words)}: exit code {done.returncode}\n{done.stderr[-3000:]}")
    return done.stdout


def ask_for_values(*words: str, codes: tuple[int, ...] = (0,)) -> dict[str, Any]:
    """What a command says with ``--json``: its last line, as values."""
    return dict(json.loads(ask(*words, "--json", codes=codes).splitlines()[-1]))


def require(*modules: str) -> None:
    """Raise `Absent` where a module is not installed."""
    if missing := [name for name in modules if find_spec(name) is None]:
        raise Absent(f"{' and '.join(missing)} not installed")
