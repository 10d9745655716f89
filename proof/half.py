"""How far training in fp16 and in bf16 is from training in fp32 on two real models, all weights and LoRA, on a CPU.

    python -m proof.half [FOLDER] [--only smollm2-135m]    # FOLDER holds the weights of Gemma 3 270M; or without them

SmolLM2-135M comes from its package. Each run makes six updates with the same rows; only `precision.compute` differs.
A CPU rounds the factors of every product to fp16 and adds in fp32, as a T4's matrix units do. Its numbers are not
those of a card, but an overflow, a vanished gradient or a wrong scale shows here as well. With all weights, the first
updates are smaller than the distance between two numbers of fp16 or bf16, so the loss falls later than in fp32.
Writes `proof/half.json`; what an earlier call found for another model stays.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tools.result_file import earlier, write_result
from workings.record.layout import METRICS

RESULT = Path(__file__).with_suffix(".json")
SETTINGS = ("name=half", "engine=torch", "device=cpu", "training.steps=6", "training.warmup_steps=1",
            "batch.micro_batch=2", "batch.accumulation=1", "data.max_length=160", "memory.remat=none",
            "evaluation=null")
METHODS = {"lora": ("method={name: lora, rank: 16, alpha: 32}", "precision.parameters=bf16"),
           "full": ("method={name: full}", "precision.parameters=fp32")}
RATES = {"lora": "training.learning_rate=1e-3", "full": "training.learning_rate=2e-5"}


def metrics(out: Path, overrides: list[str]) -> list[dict[str, Any]]:
    """The lines of the metrics of one run."""
    subprocess.run([sys.executable, "-m", "workings", "train", *overrides, "--out", str(out)], check=True,
                   env=os.environ | {"HF_HUB_OFFLINE": "1"}, stdout=sys.stderr)
    return [json.loads(line) for line in (out / METRICS).read_text().splitlines()]


def main() -> None:
    """Train, compare, write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("gemma", type=Path, nargs="?", help="folder with the weights of Gemma 3 270M")
    parser.add_argument("--only", choices=["smollm2-135m", "gemma-3-270m"])
    asked = parser.parse_args()
    models = {"smollm2-135m": ["smollm2-135m-cpu"]}
    if asked.gemma:
        models["gemma-3-270m"] = ["gemma-3-270m-cpu", f"model.id={asked.gemma.resolve()}", "data.template=gemma",
                                  "memory.loss_chunk=128"]
    values = earlier(RESULT)
    with tempfile.TemporaryDirectory() as name:
        for model, recipe in models.items():
            for method, keys in METHODS.items() if asked.only in (None, model) else ():
                runs = {compute: metrics(Path(name) / f"{model}-{method}-{compute}",
                                         [*recipe, *SETTINGS, *keys, RATES[method], f"precision.compute={compute}"])
                        for compute in ("fp32", "fp16", "bf16")}
                single = runs["fp32"]
                values[f"{model}-{method}"] = {"losses": {compute: [line["loss"] for line in lines]
                                                          for compute, lines in runs.items()}} | {
                    compute: {"first_grad_norm": abs(lines[0]["grad_norm"] / single[0]["grad_norm"] - 1),
                              "loss": max(abs(line["loss"] / other["loss"] - 1)
                                          for line, other in zip(lines, single, strict=True))}
                    for compute, lines in runs.items() if compute != "fp32"}
                print(model, method, values[f"{model}-{method}"], file=sys.stderr, flush=True)
    write_result(RESULT, what="Training in fp16 and bf16 on real models: largest relative differences to fp32.",
                 command="python -m proof.half FOLDER", packages=["torch", "transformers"], values=values)


if __name__ == "__main__":
    main()
