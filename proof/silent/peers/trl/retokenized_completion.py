"""Tokens that were sampled, next to those that are trained on."""
import torch
from _grpo import changed, grpo, spread
from _tiny import say

trainer = grpo(spread)
sampled, generate = [], trainer.model.generate
trainer.model.generate = lambda *asked, **more: sampled.append(generate(*asked, **more)) or sampled[-1]
kept = changed(trainer, lambda output: output)
trainer.train()
trained = torch.cat([kept[0]["prompt_ids"], kept[0]["completion_ids"]], 1)
again = [trainer.processing_class(trainer.processing_class.decode(row)).input_ids for row in sampled[0]]
same = torch.equal(trained, sampled[0])
say("right" if same else "wrong", f"trained on what was sampled: {same}; texts tokenized again are other tokens in "
    f"{sum(a != b.tolist() for a, b in zip(again, sampled[0]))} of 4")
