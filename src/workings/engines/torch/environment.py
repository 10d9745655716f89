"""Text about PyTorch, CUDA and the driver for a run's record."""

import shutil
import subprocess
from collections.abc import Mapping

import torch

from workings.engines.torch.device import cuda_problem, library_versions

QUERY = ("index", "name", "driver_version", "memory.total", "memory.used", "compute_cap", "pstate",
         "clocks.max.sm", "power.limit", "temperature.gpu")
"""Fields that `nvidia-smi` is asked for. Its table of processes would name other people's programs."""


def environment_files(device: torch.device) -> Mapping[str, str]:
    """File name -> text: ``torch_version.txt``, ``cuda_check.txt``, ``nvidia_smi.txt``."""
    versions = "".join(f"{name} {number}\n" for name, number in library_versions().items())
    # The long form names the compiler and the libraries that do the products.
    build = "\n".join(line.rstrip() for line in torch.__config__.show().splitlines())
    return {"torch_version.txt": versions + build + "\n", "cuda_check.txt": cuda_check(device),
            "nvidia_smi.txt": nvidia_smi()}


def cuda_check(device: torch.device) -> str:
    """Whether CUDA works here, from a kernel that ran, and which device this run uses."""
    # A card that is listed may still not run a kernel, so one is run.
    finding = cuda_problem()
    lines = [f"device of this run: {device}", "CUDA works: " + (f"no ({finding})" if finding else "yes")]
    if not finding:
        lines.append(f"CUDA {torch.version.cuda}, cuDNN {torch.backends.cudnn.version()}")
        for index in range(torch.cuda.device_count()):
            facts = torch.cuda.get_device_properties(index)
            lines.append(f"cuda:{index}: {facts.name}, compute capability {facts.major}.{facts.minor}, "
                         f"{facts.total_memory} bytes")
        lines.append("built for " + " ".join(torch.cuda.get_arch_list()))
    return "\n".join(lines) + "\n"


def nvidia_smi() -> str:
    """The driver's own words about every card, or why it has no words."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return "absent: no nvidia-smi on this machine\n"
    try:
        done = subprocess.run([program, f"--query-gpu={','.join(QUERY)}", "--format=csv"], capture_output=True,
                              text=True, check=False, timeout=60)
    except subprocess.TimeoutExpired:  # the driver hangs; the run need not
        return "absent: nvidia-smi did not answer within 60 s\n"
    if done.returncode != 0:
        return f"absent: nvidia-smi ended with {done.returncode}: {(done.stdout + done.stderr).strip()[:500]}\n"
    return done.stdout
