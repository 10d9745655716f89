"""Two runs with the same seed and one with another, each with a rate of nearly 0: the first matrices of adapters."""
import torch
from _tiny import LORA, SUM, folder, run, say

place, first = folder(), []
for seed in (1, 1, 2):
    one = run(SUM, place, **LORA, seed=seed, learning_rate=1e-20)
    first.append(next(values.detach() for name, values in one.model.named_parameters() if "lora_A" in name))
same, other = torch.equal(first[0], first[1]), torch.equal(first[0], first[2])
say("right" if same and not other else "wrong", f"adapters of one seed are equal: {same}; of two seeds: {other}")
