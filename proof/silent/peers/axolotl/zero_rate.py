"""One update with one step of warm-up."""
import torch
from _tiny import SUM, folder, logged, run, say, weights

place = folder()
one = run(SUM, place, warmup_steps=1, lr_scheduler="linear")
before, rate = weights(place), logged(one, "learning_rate")[0]
same = all(torch.equal(values, before[name]) for name, values in one.model.named_parameters() if name in before)
say("right" if not same else "warned" if rate == 0 else "wrong",
    f"trained to its end, no weight changed: {same}; the log has learning_rate {rate}")
