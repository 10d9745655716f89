"""Five rows of an evaluation in batches of eight and of two: the last row counts in both."""
from _tiny import CHATML, model_folder, say, trainer, turns


def loss(texts, size):
    rows = [turns("ab", text) for text in texts]
    return trainer(rows, place, per_device_eval_batch_size=size).evaluate()["eval_loss"]


place, rows = model_folder(CHATML), ["cccccc", "dddddd", "eeeeee", "ffffff", "gggggg"]
moved = [abs(loss(rows, size) - loss([*rows[:4], "zyxwvu"], size)) for size in (8, 2)]
say("right" if min(moved) > 1e-4 else "wrong", f"another last row moves the loss by {moved[0]:.4f} and {moved[1]:.4f}")
