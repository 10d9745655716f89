"""One update with a warm-up."""
import torch
from _tiny import folder, logged, say, trainer, turns, weights

place = folder()
made = trainer([turns("ab", "c" * 9)], place, {"warmup_ratio": 0.5})
made.train()
before, after, rate = weights(place), weights(made.trainer.args.output_dir), logged(made, "learning_rate")[0]
same = all(torch.equal(values, before[name]) for name, values in after.items() if name in before)
say("right" if not same else "warned" if rate == 0 else "wrong",
    f"trained to its end, no weight changed: {same}; the log has learning_rate {rate}")
