"""Five rows of an evaluation in batches of eight and of two: the last row counts in both."""
import json
from pathlib import Path

from _tiny import arguments, folder, run_exp, say


def loss(texts, size):
    asked = arguments([{"instruction": "ab", "input": "", "output": text} for text in texts], place, do_train=False,
                      do_eval=True, eval_dataset="rows", per_device_eval_batch_size=size)
    run_exp({name: value for name, value in asked.items() if name != "dataset"})
    return json.loads(Path(asked["output_dir"], "all_results.json").read_text())["eval_loss"]


place, rows = folder(), ["cccccc", "dddddd", "eeeeee", "ffffff", "gggggg"]
moved = [abs(loss(rows, size) - loss([*rows[:4], "zyxwvu"], size)) for size in (8, 2)]
say("right" if min(moved) > 1e-4 else "wrong", f"another last row moves the loss by {moved[0]:.4f} and {moved[1]:.4f}")
