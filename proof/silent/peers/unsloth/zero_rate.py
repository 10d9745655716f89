"""One update with one step of warm-up."""
import torch
from _tiny import logged, say, trainer, turns

one = trainer([turns("ab", "c" * 9)], lr_scheduler_type="linear", warmup_steps=1)
before = [p.clone() for p in one.model.parameters()]
one.train()
same, rate = all(torch.equal(a, b) for a, b in zip(before, one.model.parameters())), logged(one, "learning_rate")[0]
say("right" if not same else "warned" if rate == 0 else "wrong",
    f"trained to its end, no weight changed: {same}; the log has learning_rate {rate}")
