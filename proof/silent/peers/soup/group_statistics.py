"""Advantages of rewards of a million and a million and one, next to those of 0 and 1."""
from _grpo import changed, grpo
from _tiny import folder, say

found, place = [], folder()
for base in (1e6, 0.0):
    made = grpo(f"[{base} + (number == 0) for number in range(len(completions))]", place)
    kept = changed(made)
    made.train()
    found.append(sorted(round(x, 4) for x in kept[0]["advantages"].tolist()))
say("right" if max(abs(a - b) for a, b in zip(*found)) < 0.01 else "wrong", f"{found[0]} and {found[1]}")
