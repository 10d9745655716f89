"""One update with one step of warm-up."""
import torch
from _tiny import folder, logged, say, trained, weights

place = folder()
log, out = trained([{"instruction": "ab", "input": "", "output": "c" * 9}], place, lr_scheduler_type="linear",
                   warmup_steps=1)
before, after, rate = weights(place), weights(out), logged(log, "learning_rate")[0]
same = all(torch.equal(values, before[name]) for name, values in after.items() if name in before)
say("right" if not same else "warned" if rate == 0 else "wrong",
    f"trained to its end, no weight changed: {same}; the log has learning_rate {rate}")
