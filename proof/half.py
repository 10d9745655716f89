"""How far training in fp16 is from training in fp32 on two real models, all weights and LoRA, on a CPU.

    python -m proof.half FOLDER      # FOLDER holds the weights of Gemma 3 270M

SmolLM2-135M comes from its package. Each run makes six updates with the same rows; only `precision.compute` differs.
A CPU rounds the factors of every product to fp16 and adds in fp32, as a T4's matrix units do. Its numbers are not
those of a card, but an overflow, a vanished gradient or a wrong scale shows here as well. Writes `proof/half.json`.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tools.result_file import write_result
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


def largest(name: str, half: list[dict[str, Any]], single: list[dict[str, Any]]) -> float:
    """The largest relative difference of one metric over the updates."""
    return max(abs(one[name] - other[name]) / abs(other[name]) for one, other in zip(half, single, strict=True))


def main() -> None:
    """Train, compare, write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("gemma", type=Path, help="folder with the weights of Gemma 3 270M")
    gemma = parser.parse_args().gemma.resolve()
    models = {"smollm2-135m": ["smollm2-135m-cpu"],
              "gemma-3-270m": ["gemma-3-270m-cpu", f"model.id={gemma}", "data.template=gemma", "memory.loss_chunk=128"]}
    values: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        for model, recipe in models.items():
            for method, keys in METHODS.items():
                runs = {compute: metrics(Path(name) / f"{model}-{method}-{compute}",
                                         [*recipe, *SETTINGS, *keys, RATES[method], f"precision.compute={compute}"])
                        for compute in ("fp32", "fp16")}
                half, single = runs["fp16"], runs["fp32"]
                values[f"{model}-{method}"] = {
                    "loss_first": single[0]["loss"], "loss_last": single[-1]["loss"],
                    "loss_difference": largest("loss", half, single),
                    "grad_norm_difference": largest("grad_norm", half, single),
                    "skipped_updates": half[-1]["skipped_updates"], "loss_scale": half[-1]["loss_scale"]}
                print(model, method, values[f"{model}-{method}"], file=sys.stderr, flush=True)
    write_result(RESULT, what="Training in fp16 next to fp32 on real models: largest relative differences.",
                 command="python -m proof.half FOLDER", packages=["torch", "transformers"], values=values)


if __name__ == "__main__":
    main()
