"""The learning rate that an update is taken with, next to the one that is logged for it."""
from _tiny import SUM, logged, run, say
from torch.optim import AdamW

used, step = [], AdamW.step


def watched(self, *asked, **more):
    used.append(round(self.param_groups[0]["lr"], 9))
    return step(self, *asked, **more)


AdamW.step = watched
one = run(SUM * 2, max_steps=4, lr_scheduler="linear", warmup_steps=0)
AdamW.step = step
rates = logged(one, "learning_rate")
say("right" if used == rates else "wrong", f"used {used}, logged {rates}")
