"""A reward function that gives one number fewer than there are completions, as a list and as an array."""
import numpy as np
from _tiny import say
from tunix.rl.grpo.grpo_learner import GRPOConfig
from tunix.rl.reward_manager import SequenceRewardManager

found = []
for kind in (list, np.array):
    try:
        SequenceRewardManager(lambda prompts, completions, kind=kind, **more: kind([1.0] * (len(completions) - 1)), GRPOConfig(
            num_generations=4))(prompts=["a"] * 4, completions=["b"] * 4)
        found.append("taken")
    except (ValueError, RuntimeError) as error:
        found.append(" ".join(str(error).split())[:90])
say("wrong" if "taken" in found else "refused", "; ".join(found))
