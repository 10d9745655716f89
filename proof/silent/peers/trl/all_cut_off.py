"""GRPO with two tokens a completion, and completions that are cut off left out of the loss."""
import torch
from _grpo import grpo, spread
from _tiny import logged, say

trainer = grpo(spread, max_completion_length=2, mask_truncated_completions=True)
before = [p.clone() for p in trainer.model.parameters()]
trainer.train()
same = all(torch.equal(a, b) for a, b in zip(before, trainer.model.parameters()))
share = logged(trainer, "completions/clipped_ratio")
say("warned" if same and share == [1.0] else "right" if not same else "wrong",
    f"ends without an error, no weight changed: {same}; the log has completions/clipped_ratio {share}")
