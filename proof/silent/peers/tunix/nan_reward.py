"""A reward function that gives NaN for one completion, and one that gives None."""
import math

import numpy as np
from _tiny import say
from tunix.rl.algo_core import compute_advantages
from tunix.rl.grpo.grpo_learner import GRPOConfig
from tunix.rl.reward_manager import SequenceRewardManager

found = {}
for name, bad in (("NaN", math.nan), ("None", None)):
    try:
        manager = SequenceRewardManager(lambda prompts, completions, bad=bad, **more: [bad, 1.0, 0.0, 1.0], GRPOConfig(num_generations=4))
        rewards = manager(prompts=["a"] * 4, completions=["b"] * 4)["rewards"]
        found[name] = [round(float(x), 3) for x in compute_advantages(np.asarray(rewards), 4)]
    except (ValueError, TypeError, RuntimeError) as error:
        found[name] = " ".join(str(error).split())[:60]
finite = all(isinstance(one, str) or all(map(math.isfinite, one)) for one in found.values())
say("right" if finite else "wrong", f"advantages with {', '.join(f'{name} {said}' for name, said in found.items())}")
