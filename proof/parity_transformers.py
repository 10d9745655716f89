"""Models that one engine alone has compute what transformers computes: its own class, PyTorch's own AdamW.

In float32, on the batches of `workings doctor --engines`: logits, losses and gradients, 20 steps, and steps that the
engine begins and transformers finishes with the moments of the engine's checkpoint. transformers opens the exported
model, with its own plain attention and its own code for everything.

    python -m proof.parity_transformers [FAMILY ...]

Only the families that are named are compared, or else all; rows of an earlier call stay.
"""

import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from peft import PeftModel
from torch.nn.functional import cross_entropy
from transformers import AutoModelForCausalLM

from tools.result_file import earlier, measured, write_result
from workings.config.load import load_recipe
from workings.engines.safetensors_file import TensorFile
from workings.models.batch import Batch
from workings.runs.parity import (
    COMPARED_BATCHES,
    TOLERANCES,
    Parity,
    ParityCase,
    comparable,
    first_losses,
    gradient_difference,
    gradients,
    make_case,
    max_abs_difference,
    run_steps,
    trained_logits,
)
from workings.runs.smoke import shrink

ENGINE, STEPS = "torch", 20
METHODS = ("full", "lora")
USUAL = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
ADAPTED = {"qwen3_5": ("in_proj_qkv", "in_proj_z", "out_proj", *USUAL), "gemma4": USUAL}
"""Family -> the projections that have adapters."""
EXPERTS = {"experts": 4, "experts_per_token": 2, "expert_width": 48, "shared_kv_layers": 0, "shared_mlp_width": 0,
           "per_layer_width": 0, "keys_as_values": True, "global_kv_heads": 1}
"""What makes a tiny Gemma 4 the form of its 26B-A4B."""
FORMS: tuple[tuple[str, Mapping[str, Any]], ...] = (("qwen3_5", {}), ("gemma4", EXPERTS))
"""Family, and changes of its tiny shape."""
OPTIMIZER = "optimizer.safetensors"


class Theirs:
    """transformers' class on an exported folder, trained by PyTorch's AdamW."""

    def __init__(self, case: ParityCase, folder: Path, adapter: Path | None = None) -> None:
        model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
        # transformers may take token 0 for padding, whose row would get no gradient.
        model.get_input_embeddings().padding_idx = None
        self.model: Any = model if adapter is None else PeftModel.from_pretrained(model, adapter, is_trainable=True)
        self.case = case
        # Names as a checkpoint of ours has them: without the adapter's own name.
        self.trained = {name.replace(".default.", "."): x for name, x in self.model.named_parameters()
                        if x.requires_grad}
        decays: dict[bool, list[torch.nn.Parameter]] = {True: [], False: []}
        for x in self.trained.values():
            decays[x.ndim > 1].append(x)
        settings = case.request.optimizer.model_dump()
        self.optimizer = torch.optim.AdamW(
            [{"params": params, "weight_decay": settings["weight_decay"] * decayed}
             for decayed, params in decays.items()],
            betas=(settings["beta1"], settings["beta2"]), eps=settings["epsilon"])
        self.clip = settings["clip_norm"]

    def logits(self, batch: Batch, part: int = 0) -> torch.Tensor:
        """``[B, S, V]`` of one micro batch."""
        found: torch.Tensor = self.model(input_ids=torch.from_numpy(batch.tokens[part]).long(),
                                         attention_mask=torch.from_numpy(batch.segment_ids[part] > 0).long(),
                                         use_cache=False).logits
        return found

    def loss(self, batch: Batch) -> torch.Tensor:
        """Mean loss of a batch, its gradients added up."""
        total = torch.zeros(())
        for part in range(batch.tokens.shape[0]):
            each = cross_entropy(self.logits(batch, part).flatten(0, 1),
                                 torch.from_numpy(batch.targets[part]).long().flatten(), reduction="none")
            loss = (each * torch.from_numpy(batch.loss_mask[part]).flatten()).sum() / batch.divisor
            loss.backward()
            total += loss.detach()
        return total

    def run_steps(self, first: int, last: int) -> list[float]:
        """Losses of the steps from one to before another."""
        losses = []
        for step in range(first, last):
            losses.append(float(self.loss(self.case.batches[step])))
            if self.clip:
                torch.nn.utils.clip_grad_norm_(self.trained.values(), self.clip)
            for group in self.optimizer.param_groups:
                group["lr"] = self.case.rates[step]
            self.optimizer.step()
            self.optimizer.zero_grad()
        return losses

    def take_moments(self, file: Path, step: int) -> None:
        """Continue with the moments of a checkpoint."""
        read = TensorFile(file)
        for name, x in self.trained.items():
            self.optimizer.state[x] = {"step": torch.tensor(float(step)), **{
                slot: torch.from_numpy(np.array(read.read(f"{slot}.{name}"))) for slot in ("exp_avg", "exp_avg_sq")}}

    def gradients(self) -> Mapping[str, np.ndarray]:
        """Of the first batch."""
        self.loss(self.case.batches[0])
        found = {name: x.grad.numpy().copy() for name, x in self.trained.items() if x.grad is not None}
        self.optimizer.zero_grad()
        return found


def compared(family: str, changes: Mapping[str, Any], method: str, folder: Path) -> Parity:
    """One row."""
    adapted = ", ".join(ADAPTED[family])
    own = ["optimizer.weight_decay=0.1"] if method == "full" else [
        f"method={{name: lora, rank: 4, alpha: 8, target_modules: [{adapted}]}}", "batch.accumulation=2"]
    words = [f"engine={ENGINE}", f"model.shape.family={family}", "model.shape.layers=4", *own]
    loaded = comparable(load_recipe("smoke-tiny", words), STEPS, on_cpu=True)
    case = make_case(shrink(loaded, STEPS), folder, small=True, initializer=ENGINE, changes=changes)
    case = replace(case, request=replace(case.request, packed=False))
    ours, half = case.engine(ENGINE), STEPS // 2

    def exported(state: Any, name: str) -> Theirs:
        place = folder / name
        place.mkdir()
        ours.export(state, place)
        adapter = None if method == "full" else place / "adapter"
        # Adapters belong on the weights that training began with.
        return Theirs(case, place if adapter is None else case.weights, adapter)

    theirs = exported(case.initial_state(ours, case.request.optimizer), "begun")
    losses = [float(theirs.loss(batch)) for batch in case.batches[:COMPARED_BATCHES]]
    theirs.optimizer.zero_grad()
    # The optimizer's first moment is the gradient times one minus beta1, less what clipping takes: up to one factor.
    found, expected = gradients(case, ENGINE), dict(theirs.gradients())
    scale = max(float(np.abs(x).max()) for x in found.values()) / max(float(np.abs(x).max()) for x in expected.values())
    gradient, worst = gradient_difference(found, {name: scale * x for name, x in expected.items()})
    state, first = run_steps(case, ours, case.initial_state(ours, case.request.optimizer), 0, half)
    middle = exported(state, "half")
    place = folder / "half-checkpoint"
    place.mkdir()
    ours.save(state, place)
    middle.take_moments(place / OPTIMIZER, half)
    _, second = run_steps(case, ours, state, half, STEPS)
    known = trained_logits(case, ENGINE)
    whole = Theirs(case, folder / "trained")
    with torch.no_grad():
        other = whole.logits(case.batches[0]).numpy()[case.batches[0].segment_ids[0] != 0]
    return Parity(
        model=f"smoke-tiny: {family}, {method}, adamw", steps=STEPS, logit=max_abs_difference(known, other),
        loss=max_abs_difference(first_losses(case, ENGINE), losses), gradient=gradient, worst_gradient=worst,
        curve=max_abs_difference(first + second, theirs.run_steps(0, STEPS)),
        resume=max_abs_difference(second, middle.run_steps(half, STEPS)))


def main(families: list[str]) -> int:
    """Compare, write, and say whether all passed."""
    rows = {(old["family"], old["method"]): old for old in earlier().get("rows", [])}
    for (family, changes), method in product(FORMS, METHODS):
        if families and family not in families:
            continue
        with tempfile.TemporaryDirectory(prefix="workings-parity-") as folder:
            found = compared(family, changes, method, Path(folder))
        rows[family, method] = {"family": family, "changes": dict(changes), "method": method} | found.to_json() | {
            "engines": [ENGINE, "transformers"], "compared": measured()}
        print(rows[family, method], flush=True)
    kept = [rows[family, method] for (family, _), method in product(FORMS, METHODS) if (family, method) in rows]
    write_result(packages=["peft", "torch", "transformers"], values={
        "comparisons": len(kept), "passed": sum(row["passed"] for row in kept), "tolerances": TOLERANCES,
        "steps": STEPS, "rows": kept})
    return 0 if all(row["passed"] for row in kept) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
