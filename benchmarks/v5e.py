"""Memory of full fine-tuning steps on a TPU v5e-8, by compiling them with the real TPU compiler; no chip is needed.

    python -m benchmarks.v5e [--from LINES]

Every case is one command of `benchmarks.spikes`; each takes half a minute of processor time or more. ``--from`` takes
answers of the same commands that were kept in a file, a JSON object a line, instead of compiling again. Peaks do not
depend on this machine, seconds do.
"""

import json
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from tools.result_file import ROOT, write_result

OWN, TUNIX = "benchmarks.spikes.compile_v5e", "benchmarks.spikes.compile_tunix_v5e"
CASES = {
    "gemma_2b_adafactor_32x2048": f"{OWN} gemma-2b adafactor 32 2048",
    "gemma_2b_adafactor_32x2048_stochastic_clipped": f"{OWN} gemma-2b adafactor 32 2048 rounding=stochastic clip=1",
    "gemma_2b_adafactor_32x2048_two_layers": f"{OWN} gemma-2b adafactor 32 2048 layers=2",
    "gemma_2b_adafactor_256x2048": f"{OWN} gemma-2b adafactor 256 2048",
    "gemma_2b_adamw_8x8192": f"{OWN} gemma-2b adamw 8 8192",
    "gemma_3_1b_adamw_8x2048": f"{OWN} gemma-3-1b adamw 8 2048",
    "gemma_3_1b_adamw_8x32768": f"{OWN} gemma-3-1b adamw 8 32768",
    "gemma_2_2b_adamw_8x2048": f"{OWN} gemma-2-2b adamw 8 2048",
    "one_chip_gemma_2b_adafactor_1x64": f"{OWN} gemma-2b adafactor 1 64 devices=1 attention=plain chunk=0",
    "tunix_gemma_2b_adafactor_32x2048": f"{TUNIX} 18 32 2048",
}
FORWARD = ("model", "matmul", "attention", "feed_forward", "embedding", "remat", "sharding")
"""Files of `engines/jax` that a forward of Tunix's would replace."""


def compile_case(command: str) -> dict[str, Any]:
    """Run one command and read its last line."""
    done = subprocess.run([sys.executable, "-m", *command.split()], cwd=ROOT, text=True, capture_output=True,
                          check=False)
    if done.returncode != 0:
        return {"command": f"python -m {command}", "failed": done.stderr.strip().splitlines()[-1][:300]}
    answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


def lines() -> dict[str, int]:
    """Lines of our forward (six families) and of the two files of Tunix that hold Gemma 1 to 3."""
    tunix = Path(str(distribution("google-tunix").locate_file("tunix"))) / "models"
    counted = {f"tunix_{name}": (tunix / name / "model.py").read_text(encoding="utf-8").count("\n")
               for name in ("gemma", "gemma3")}
    ours = ROOT / "src" / "workings" / "engines" / "jax"
    return counted | {"own": sum((ours / f"{name}.py").read_text(encoding="utf-8").count("\n") for name in FORWARD)}


def main(arguments: list[str]) -> int:
    """All cases; 1 if one of them could not be compiled for another reason than memory."""
    kept: dict[str, dict[str, Any]] = {}
    if arguments[:1] == ["--from"]:
        answers = [json.loads(line) for line in Path(arguments[1]).read_text(encoding="utf-8").splitlines()]
        kept = {answer["command"]: answer for answer in answers if "command" in answer}
    cases = {}
    for name, command in CASES.items():
        answer = kept.get(f"python -m {command}") or compile_case(command)
        cases[name] = answer | {"fits": "peak_gib" in answer and answer.get("refused", "no") == "no"}
    write_result(packages=("jax", "jaxlib", "libtpu", "google-tunix", "flax", "optax"),
                 values={"limit_gib": 15.75, "cases": cases, "lines": lines()})
    return int(any("failed" in case for case in cases.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
