"""Rows of 3 and of 30 learned tokens: as one batch of two, and as two micro batches."""
from _tiny import logged, say, sft

rows = [{"prompt": "ab", "completion": "c" * 2}, {"prompt": "ab", "completion": "d" * 29}]
found = []
for size, accumulation in ((2, 1), (1, 2)):
    trainer = sft(rows, per_device_train_batch_size=size, gradient_accumulation_steps=accumulation)
    trainer.train()
    found.append((logged(trainer, "loss")[0], logged(trainer, "grad_norm")[0]))
same = abs(found[0][0] - found[1][0]) < 1e-3 and abs(found[0][1] - found[1][1]) < 1e-3
say("right" if same else "wrong", f"loss and gradient norm {found[0]} in one batch, {found[1]} accumulated")
