"""Five rows of an evaluation in batches of eight and of two: the last row counts in both."""
import tempfile

from _tiny import USUAL, model, say, tokenizer
from datasets import Dataset
from trl import SFTConfig, SFTTrainer


def loss(rows, size):
    args = SFTConfig(tempfile.mkdtemp(), **(USUAL | {"per_device_eval_batch_size": size}))
    return SFTTrainer(model(), args, train_dataset=Dataset.from_list(rows), eval_dataset=Dataset.from_list(rows),
                      processing_class=tokenizer()).evaluate()["eval_loss"]


rows = [{"prompt": "ab", "completion": letter * 6} for letter in "cdefg"]
other = [*rows[:4], {"prompt": "ab", "completion": "zyxwvu"}]
moved = [abs(loss(rows, size) - loss(other, size)) for size in (8, 2)]
say("right" if min(moved) > 1e-4 else "wrong", f"another last row moves the loss by {moved[0]:.4f} and {moved[1]:.4f}")
