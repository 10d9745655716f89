"""A program that ignores the launcher's variables trains alone in every pod, without a word.

Reported: kubeflow/trainer#3930.
"""

import os
import subprocess
import sys

from proof.silent._harness import Found, right_if, temporary


def check(engine: str) -> Found:
    """With `PET_NNODES=2` and no group of processes the command refuses to train."""
    with temporary() as folder:
        done = subprocess.run([sys.executable, "-m", "workings", "train", "smoke-tiny", "--out", "run",
                               f"engine={engine}"], cwd=folder, env=os.environ | {"PET_NNODES": "2"}, text=True,
                              capture_output=True, check=False)
        left = [*folder.iterdir()]
    said = " ".join(done.stderr.split())
    found = right_if(done.returncode == 2 and "PET_NNODES=2" in said and not left, said[:150])
    return found._replace(verdict="refused") if found.verdict == "right" else found
