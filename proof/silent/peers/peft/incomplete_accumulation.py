"""Three rows, four micro batches an update: the update of an epoch's end has the gradient of the three rows."""
from _tiny import logged, say, trainer

found = []
for size, accumulation in ((3, 1), (1, 4)):
    one = trainer([4, 9, 14], per_device_train_batch_size=size, gradient_accumulation_steps=accumulation)
    one.train()
    found.append((round(logged(one, "loss")[0], 4), round(logged(one, "grad_norm")[0], 4)))
same = all(abs(a - b) < 2e-3 for a, b in zip(*found))
say("right" if same else "wrong", f"loss and gradient norm {found[0]} as one batch, {found[1]} as 3 of 4 micro batches")
