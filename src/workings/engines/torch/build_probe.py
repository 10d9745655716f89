"""Probe of the installed PyTorch: its build, and one of its kernels on every GPU. Imports nothing but PyTorch.

    python build_probe.py [--kernel DTYPE]

prints one JSON object. It is run in a child process, and by the Python of an environment that holds nothing else.
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
    """A matrix product in a number format on every card, against the same product in fp64 on the CPU."""
    import torch

    formats = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
    left = torch.linspace(-1.0, 1.0, 128 * 64, dtype=torch.float64).reshape(128, 64).to(formats[dtype])
    right = torch.linspace(1.0, -0.5, 64 * 32, dtype=torch.float64).reshape(64, 32).to(formats[dtype])
    # From the factors as they were rounded, so that what is left is the card's own error.
    expected = left.double() @ right.double()
    names, worst = [], 0.0
    for index in range(torch.cuda.device_count()):
        # Kernels run asynchronously; copying the result waits for it, and raises what went wrong.
        got = (left.to(f"cuda:{index}") @ right.to(f"cuda:{index}")).cpu().double()
        worst = max(worst, float((got - expected).abs().max() / expected.abs().max()))
        names.append(torch.cuda.get_device_name(index))
    return {"devices": names, "dtype": dtype, "largest_relative_difference": worst}


if __name__ == "__main__":
    facts = wheel()
    if "--kernel" in sys.argv:
        try:
            facts["kernel"] = kernel(sys.argv[sys.argv.index("--kernel") + 1])
        except (RuntimeError, AssertionError) as error:
            facts["failure"] = (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
        else:
            if not facts["kernel"]["devices"]:
                facts["failure"] = "PyTorch sees no card: " + (
                    "a build without CUDA" if not facts["cuda"] else f"no driver, or one too old for {facts['cuda']}")
            # bfloat16 rounds each result by up to 0.4 %.
            elif facts["kernel"]["largest_relative_difference"] > 0.02:
                facts["failure"] = "the card computes a wrong product"
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.exit(1 if "failure" in facts else 0)
