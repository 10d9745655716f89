"""GRPO with a reward that is the same for all completions."""
import torch
from _grpo import grpo
from _tiny import logged, say

trainer = grpo(lambda completions, **more: [0.5] * len(completions))
before = [p.clone() for p in trainer.model.parameters()]
trainer.train()
same = all(torch.equal(a, b) for a, b in zip(before, trainer.model.parameters()))
share = logged(trainer, "frac_reward_zero_std")
say("warned" if share == [1.0] else "wrong",
    f"ends without an error, no weight changed: {same}; the log has frac_reward_zero_std {share}")
