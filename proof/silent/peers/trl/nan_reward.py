"""A reward function that gives NaN for one completion."""
import math

from _grpo import grpo
from _tiny import logged, say

try:
    trainer = grpo(lambda completions, **more: [math.nan, 1.0, 0.0, 1.0][:len(completions)])
    trainer.train()
    norm = logged(trainer, "grad_norm")[0]
    weights = all(p.isfinite().all() for p in trainer.model.parameters())
    say("right" if weights and math.isfinite(norm) else "wrong", f"gradient norm {norm}, weights finite: {weights}")
except (ValueError, RuntimeError) as error:
    say("refused", " ".join(str(error).split())[:150])
