"""Two runs with the same seed and one with another, each with a rate of nearly 0: the first matrices of adapters."""
import torch
from _tiny import folder, say, trained, weights

place = folder()
made = [weights(trained([{"instruction": "ab", "input": "", "output": "c"}], place, finetuning_type="lora", seed=seed,
                        lora_target="q_proj", learning_rate=1e-20)[1]) for seed in (1, 1, 2)]
first = [next(values for name, values in one.items() if "lora_A" in name) for one in made]
same, other = torch.equal(first[0], first[1]), torch.equal(first[0], first[2])
say("right" if same and not other else "wrong", f"adapters of one seed are equal: {same}; of two seeds: {other}")
