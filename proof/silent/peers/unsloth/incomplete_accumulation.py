"""Three rows, four micro batches an update: the update of an epoch's end has the gradient of the three rows."""
from _tiny import CHATML, logged, model_folder, say, trainer, turns

rows, place, found = [turns("ab", letter * count) for letter, count in (("c", 4), ("d", 9), ("e", 14))], model_folder(CHATML), []
for size, accumulation in ((3, 1), (1, 4)):
    one = trainer(rows, place, per_device_train_batch_size=size, gradient_accumulation_steps=accumulation)
    one.train()
    found.append((round(logged(one, "loss")[0], 4), round(logged(one, "grad_norm")[0], 4)))
same = all(abs(a - b) < 2e-3 for a, b in zip(*found))
say("right" if same else "wrong", f"loss and gradient norm {found[0]} as one batch, {found[1]} as 3 of 4 micro batches")
