"""Completions whose behavior was 200 nats a token away, with a negative advantage: ratios of tokens and of sequences."""
import math

import torch
from _grpo import changed, grpo, spread
from _tiny import logged, say


def far(output):
    old = torch.full(output["completion_ids"].shape, -200.0)
    return {**output, "old_per_token_logps": old, "advantages": -torch.ones_like(output["advantages"])}


found = {}
for level, loss in (("token", "dapo"), ("sequence", "grpo"), ("token", "cispo")):
    trainer = grpo(spread, importance_sampling_level=level, loss_type=loss)
    changed(trainer, far)
    trainer.train()
    found[f"{loss} by {level}"] = logged(trainer, "loss")[0], logged(trainer, "grad_norm")[0]
finite = all(math.isfinite(x) for pair in found.values() for x in pair)
weights = all(p.isfinite().all() for p in trainer.model.parameters())
say("right" if finite and weights else "wrong", "loss and gradient norm " + ", ".join(
    f"{name} {a:.3g} and {b:.3g}" for name, (a, b) in found.items()))
