"""``python -m workings.engines.torch_build``: what the installed PyTorch was built for, as JSON.

Its version, CUDA version and architectures, asked in a child process; no driver is needed.
"""

import json
import sys

import torch

if __name__ == "__main__":
    flags = getattr(torch._C, "_cuda_getArchFlags", lambda: "")() or ""
    sys.stdout.write(json.dumps({"version": torch.__version__, "cuda": torch.version.cuda or "",
                                 "architectures": flags.split()}) + "\n")
