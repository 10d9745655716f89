"""Advantages of rewards of a million and a million and one, next to those of 0 and 1."""
from _grpo import grpo
from _tiny import say

found = []
for base in (1e6, 0.0):
    trainer = grpo(lambda completions, base=base, **more: [base + (n == 0) for n in range(len(completions))])
    compute, kept = trainer._generate_and_score_completions, []
    trainer._generate_and_score_completions = lambda inputs: kept.append(compute(inputs)) or kept[-1]
    trainer.train()
    found.append(sorted(round(x, 4) for x in kept[0]["advantages"].tolist()))
say("right" if max(abs(a - b) for a, b in zip(*found)) < 0.01 else "wrong", f"{found[0]} and {found[1]}")
