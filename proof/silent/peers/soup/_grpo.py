"""One update of Soup's GRPO with a reward function in a file, and what it is computed from."""
import tempfile
from pathlib import Path

from _tiny import LORA, trainer, turns

SPREAD = "[float(number) for number in range(len(completions))]"
"""Other rewards for each completion."""


def grpo(reward=SPREAD, place=None, **settings):
    file = Path(tempfile.mkdtemp(), "reward.py")
    file.write_text(f"import math\n\n\ndef reward_fn(completions, **more):\n    return {reward}\n")
    return trainer([turns("ab", "c")], place, {"reward_fn": str(file), "num_generations": 4, "batch_size": 4, "lora": LORA,
                                               "grpo_beta": 0.0} | settings, task="grpo", max_length=64)


def changed(made, change=lambda output: output):
    """What an update is computed from, after this change."""
    compute, kept = made.trainer._generate_and_score_completions, []
    made.trainer._generate_and_score_completions = lambda inputs: kept.append(change(compute(inputs))) or kept[-1]
    return kept
