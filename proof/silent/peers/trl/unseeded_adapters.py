"""Two trainers with the same seed, made one after the other in one process."""
import torch
from _tiny import say, sft
from peft import LoraConfig

made = [sft([{"prompt": "ab", "completion": "c"}], peft=LoraConfig(target_modules=["q_proj"]), seed=seed)
        for seed in (1, 1, 2) if torch.rand(seed + 1) is not None]
first = [next(p for name, p in one.model.named_parameters() if "lora_A" in name) for one in made]
same, other = torch.equal(first[0], first[1]), torch.equal(first[0], first[2])
say("right" if same and not other else "wrong", f"adapters of one seed are equal: {same}; of two seeds: {other}")
