"""Five rows of an evaluation in batches of eight and of two: the last row counts in both."""
from _tiny import say, trainer


def loss(rows, size):
    return trainer(rows, per_device_eval_batch_size=size).evaluate()["eval_loss"]


moved = [abs(loss([6, 6, 6, 6, 6], size) - loss([6, 6, 6, 6, 40], size)) for size in (8, 2)]
say("right" if min(moved) > 1e-4 else "wrong", f"another last row moves the loss by {moved[0]:.4f} and {moved[1]:.4f}")
