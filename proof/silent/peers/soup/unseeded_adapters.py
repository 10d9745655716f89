"""Trainers with the same seed and one with another, made one after the other in one process."""
import torch
from _tiny import LORA, folder, say, trainer, turns

place = folder()
made = [trainer([turns("ab", "c")], place, {"lora": LORA, "seed": seed}) for seed in (1, 1, 2) if torch.rand(seed + 1) is not None]
first = [next(p for name, p in one.model.named_parameters() if "lora_A" in name) for one in made]
same, other = torch.equal(first[0], first[1]), torch.equal(first[0], first[2])
say("right" if same and not other else "wrong", f"adapters of one seed are equal: {same}; of two seeds: {other}")
