"""The learning rate that an update is taken with, next to the one that is logged for it."""
from _tiny import logged, say, trainer, turns
from transformers import TrainerCallback

used = []


class Watch(TrainerCallback):
    def on_pre_optimizer_step(self, args, state, control, optimizer=None, **more):
        used.append(optimizer.param_groups[0]["lr"])


one = trainer([turns("ab", "c")] * 4, max_steps=4, lr_scheduler_type="linear")
one.add_callback(Watch())
one.train()
rates = logged(one, "learning_rate")
say("right" if used == rates else "wrong", f"used {[round(x, 6) for x in used]}, logged {[round(x, 6) for x in rates]}")
