"""Rows of few and of many learned tokens: as one batch of two, and as two micro batches."""
from _tiny import CHATML, logged, model_folder, say, trainer, turns

rows, place, found = [turns("ab", text) for text in ("c", "d" * 60)], model_folder(CHATML), []
for size, accumulation in ((2, 1), (1, 2)):
    one = trainer(rows, place, per_device_train_batch_size=size, gradient_accumulation_steps=accumulation)
    one.train()
    found.append((round(logged(one, "loss")[0], 4), round(logged(one, "grad_norm")[0], 4)))
same = all(abs(a - b) < 2e-3 for a, b in zip(*found))
say("right" if same else "wrong", f"loss and gradient norm {found[0]} in one batch, {found[1]} accumulated")
