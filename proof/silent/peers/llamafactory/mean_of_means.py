"""Rows of few and of many learned tokens: as one batch of two, and as two micro batches."""
from _tiny import folder, say, trained

rows, place = [{"instruction": "ab", "input": "", "output": text} for text in ("c", "d" * 60)], folder()
found = []
for size, accumulation in ((2, 1), (1, 2)):
    log, _ = trained(rows, place, per_device_train_batch_size=size, gradient_accumulation_steps=accumulation)
    found.append((round(log[0]["loss"], 4), round(log[0]["grad_norm"], 4)))
same = all(abs(a - b) < 2e-3 for a, b in zip(*found))
say("right" if same else "wrong", f"loss and gradient norm {found[0]} in one batch, {found[1]} accumulated")
