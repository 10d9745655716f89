"""Prints facts about the installed PyTorch as one JSON object: its build, and the result of one kernel on every GPU.

    python build_probe.py [--kernel DTYPE]  ->  {"version": "2.9.0", "cuda": "12.8", "architectures": ["sm_90"], …}

With ``--kernel`` there is also ``kernel``; and ``failure``, with status 1, if a GPU does not compute right. It imports
nothing but PyTorch, because it also runs in environments that have nothing else.
"""

import json
import sys
from typing import Any


def wheel() -> dict[str, Any]:
    """Version, CUDA version and compiled architectures of the installed build; no driver is needed."""
    import torch

    flags = getattr(torch._C, "_cuda_getArchFlags", lambda: "")() or ""
    return {"version": torch.__version__, "cuda": torch.version.cuda or "", "architectures": flags.split()}


def kernel(dtype: str) -> dict[str, Any]:
    """A matrix product in a number format on every GPU, against the same product in fp64 on the CPU."""
    import torch

    formats = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
    left = torch.linspace(-1.0, 1.0, 128 * 64, dtype=torch.float64).reshape(128, 64).to(formats[dtype])
    right = torch.linspace(1.0, -0.5, 64 * 32, dtype=torch.float64).reshape(64, 32).to(formats[dtype])
    expected = left.double() @ right.double()
    names, worst = [], 0.0
    for index in range(torch.cuda.device_count()):
        # Kernels run asynchronously; copying the result waits for them, and raises their errors.
        got = (left.to(f"cuda:{index}") @ right.to(f"cuda:{index}")).cpu().double()
        worst = max(worst, float((got - expected).abs().max() / expected.abs().max()))
        names.append(torch.cuda.get_device_name(index))
    return {"devices": names, "dtype": dtype, "largest_relative_difference": worst}


def failure(facts: dict[str, Any]) -> str:
    """Why the kernel's result is not good; empty if it is."""
    if not facts["kernel"]["devices"]:
        why = f"no driver, or one too old for {facts['cuda']}" if facts["cuda"] else "a build without CUDA"
        return f"PyTorch sees no card: {why}"
    # bfloat16 rounds each result by up to 0.4 %.
    if facts["kernel"]["largest_relative_difference"] > 0.02:
        return "the card computes a wrong product"
    return ""


def first_line(error: Exception) -> str:
    """The first line of an error's message; the name of its class if it has no message."""
    lines = str(error).strip().splitlines()
    return lines[0][:300] if lines else type(error).__name__


if __name__ == "__main__":
    facts = wheel()
    if "--kernel" in sys.argv:
        try:
            facts["kernel"] = kernel(sys.argv[sys.argv.index("--kernel") + 1])
            problem = failure(facts)
        except (RuntimeError, AssertionError) as error:
            problem = first_line(error)
        if problem:
            facts["failure"] = problem
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.exit(1 if "failure" in facts else 0)
