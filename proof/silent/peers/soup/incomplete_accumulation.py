"""Three rows, four micro batches an update: the update of an epoch's end has the gradient of the three rows."""
from _tiny import folder, logged, say, trainer, turns

rows = [turns("ab", letter * count) for letter, count in (("c", 4), ("d", 9), ("e", 14))]
place, found = folder(), []
for size, accumulation in ((3, 1), (1, 4)):
    made = trainer(rows, place, {"batch_size": size, "gradient_accumulation_steps": accumulation})
    made.train()
    found.append((round(logged(made, "loss")[0], 4), round(logged(made, "grad_norm")[0], 4)))
same = all(abs(a - b) < 2e-3 for a, b in zip(*found))
say("right" if same else "wrong", f"loss and gradient norm {found[0]} as one batch, {found[1]} as 3 of 4 micro batches")
