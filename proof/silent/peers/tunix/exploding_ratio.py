"""Completions whose behavior was 200 nats a token away, with a negative advantage: ratios of tokens and of sequences."""
import math

from _ratios import loss
from _tiny import say

found = {name: loss(lambda scored: scored - 200, -1.0, loss_algo=name) for name in ("grpo", "gspo-token")}
finite = all(math.isfinite(x) for pair in found.values() for x in pair)
say("right" if finite else "wrong", "loss and gradient norm " + ", ".join(f"{name} {a:.3g} and {b:.3g}" for name, (a, b) in found.items()))
