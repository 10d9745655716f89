"""Advantages of rewards of a million and a million and one, next to those of 0 and 1."""
import numpy as np
from _tiny import say
from tunix.rl.algo_core import compute_advantages

rewards = np.array([1, 0, 0, 0], np.float32)
found = [[round(float(x), 4) for x in compute_advantages(rewards + np.float32(base), 4)] for base in (1e6, 0)]
say("right" if max(abs(a - b) for a, b in zip(*found)) < 0.01 else "wrong", f"{found[0]} and {found[1]}")
