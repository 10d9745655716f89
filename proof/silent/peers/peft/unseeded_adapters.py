"""Two adapters after the seed that PEFT's documents set, `transformers.set_seed`."""
import torch
from _tiny import LORA, model, say
from peft import get_peft_model
from transformers import set_seed

first = []
for seed in (1, 1, 2):
    base = model()
    set_seed(seed)
    tuned = get_peft_model(base, LORA)
    first.append(next(p for name, p in tuned.named_parameters() if "lora_A" in name))
same, other = torch.equal(first[0], first[1]), torch.equal(first[0], first[2])
say("right" if same and not other else "wrong", f"adapters of one seed are equal: {same}; of two seeds: {other}")
