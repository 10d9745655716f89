"""Completions whose behavior was 200 nats a token away, with a negative advantage, with each variant of GRPO."""
import math

import torch
from _grpo import changed, grpo
from _tiny import folder, logged, say


def far(output):
    old = torch.full(output["completion_ids"].shape, -200.0)
    return {**output, "old_per_token_logps": old, "advantages": -torch.ones_like(output["advantages"])}


found, place = {}, folder()
for variant in ("standard", "gspo", "dapo", "dr_grpo", "bnpo"):
    made = grpo(place=place, grpo_variant=variant)
    changed(made, far)
    try:
        made.train()
        values = logged(made, "loss")[0], logged(made, "grad_norm")[0]
        finite = all(math.isfinite(x) for x in values) and all(p.isfinite().all() for p in made.model.parameters())
        # Its callback says "non-finite gradients detected" and skips the step.
        found[variant] = ("right" if finite else "warned", f"{values[0]:.3g} and {values[1]:.3g}")
    except RuntimeError as error:
        found[variant] = ("refused", " ".join(str(error).split())[:60])
verdicts = [verdict for verdict, _ in found.values()]
say("warned" if "warned" in verdicts else verdicts[0], "loss and gradient norm " + ", ".join(f"{n} {v}" for n, (_, v) in found.items()))
