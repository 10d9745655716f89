"""The learning rate that an update is taken with, next to the one that is logged for it."""
import json
from pathlib import Path

from _tiny import arguments, logged, run_exp, say
from transformers import TrainerCallback

used = []


class Watch(TrainerCallback):
    def on_pre_optimizer_step(self, args, state, control, optimizer=None, **more):
        used.append(round(optimizer.param_groups[0]["lr"], 9))


asked = arguments([{"instruction": "ab", "input": "", "output": "c"}] * 4, max_steps=4, lr_scheduler_type="linear")
run_exp(asked, callbacks=[Watch()])
rates = logged(json.loads(Path(asked["output_dir"], "trainer_state.json").read_text())["log_history"], "learning_rate")
say("right" if used == rates else "wrong", f"used {used}, logged {rates}")
