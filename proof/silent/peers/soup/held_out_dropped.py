"""Five held-out rows in batches of eight and of two: the last row counts in both."""
from _tiny import folder, say, trainer, turns

place = folder()


def loss(last, size):
    rows = [turns("ab", text) for text in ("c", "dd", "eee", "ffff", last)]
    made = trainer(rows, place, {"batch_size": size}, held_out=rows)
    return made.trainer.evaluate()["eval_loss"]


moved = [abs(loss("zyxwv", size) - loss("g" * 50, size)) for size in (8, 2)]
say("right" if min(moved) > 1e-4 else "wrong", f"another last row moves the loss by {moved[0]:.4f} and {moved[1]:.4f}")
