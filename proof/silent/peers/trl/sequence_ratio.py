"""One token of three 8 times as likely as when it was sampled: the sequence's ratio is 2, those of tokens 8, 1 and 1."""
import math

import torch
from _grpo import changed, grpo, spread
from _tiny import logged, say


def raised(trainer):
    def change(output):
        ids = torch.cat([output["prompt_ids"], output["completion_ids"]], 1)
        scored = trainer._get_per_token_logps_and_entropies(trainer.model, ids, torch.ones_like(ids), 3)[0].detach()
        scored[:, 2] -= math.log(8)
        return {**output, "old_per_token_logps": scored, "advantages": torch.ones_like(output["advantages"])}
    return change


gains = {}
for level in ("sequence", "token"):
    trainer = grpo(spread, importance_sampling_level=level, loss_type="grpo", epsilon_high=9.0, max_completion_length=3)
    changed(trainer, raised(trainer))
    trainer.train()
    gains[level] = -logged(trainer, "loss")[0]
right = abs(gains["sequence"] - 2) < 1e-3 and abs(gains["token"] - 10 / 3) < 1e-3
say("right" if right else "wrong", f"gain {gains['sequence']:.4f} by sequence, {gains['token']:.4f} by token")
