"""Two models with the same `random_state` and one with another: the first matrices of adapters."""
import torch
from _tiny import CHATML, LORA, loaded, model_folder, say

place = model_folder(CHATML)
made = [loaded(place, LORA | {"random_state": seed})[0] for seed in (1, 1, 2) if torch.rand(seed + 1) is not None]
first = [next(values for name, values in one.named_parameters() if "lora_A" in name) for one in made]
same, other = torch.equal(first[0], first[1]), torch.equal(first[0], first[2])
say("right" if same and not other else "wrong", f"adapters of one seed are equal: {same}; of two seeds: {other}")
