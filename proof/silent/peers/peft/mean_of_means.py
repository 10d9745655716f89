"""Rows of 3 and of 30 learned tokens: as one batch of two, and as two micro batches."""
from _tiny import logged, say, trainer

found = []
for size, accumulation in ((2, 1), (1, 2)):
    one = trainer([3, 30], per_device_train_batch_size=size, gradient_accumulation_steps=accumulation)
    one.train()
    found.append((logged(one, "loss")[0], logged(one, "grad_norm")[0]))
same = abs(found[0][0] - found[1][0]) < 1e-3 and abs(found[0][1] - found[1][1]) < 1e-3
say("right" if same else "wrong", f"loss and gradient norm {found[0]} in one batch, {found[1]} accumulated")
