"""Three rows as one batch, as three micro batches, and the last row alone."""
from _tiny import logged, say, sft

rows = [{"prompt": "ab", "completion": letter * 8} for letter in "cde"]
norms = []
for some, size, accumulation in ((rows, 3, 1), (rows, 1, 3), (rows[-1:], 1, 1)):
    trainer = sft(some, per_device_train_batch_size=size, gradient_accumulation_steps=accumulation)
    trainer.train()
    norms.append(round(logged(trainer, "grad_norm")[0], 4))
say("right" if abs(norms[0] - norms[1]) < 1e-3 else "wrong", f"gradient norms {norms}")
