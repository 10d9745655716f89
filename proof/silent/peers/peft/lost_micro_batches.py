"""Three rows as one batch, as three micro batches, and the last row alone."""
from _tiny import logged, say, trainer

norms = []
for rows, size, accumulation in (([8, 9, 10], 3, 1), ([8, 9, 10], 1, 3), ([10], 1, 1)):
    one = trainer(rows, per_device_train_batch_size=size, gradient_accumulation_steps=accumulation)
    one.train()
    norms.append(round(logged(one, "grad_norm")[0], 4))
say("right" if abs(norms[0] - norms[1]) < 1e-3 < abs(norms[0] - norms[2]) else "wrong", f"gradient norms {norms}")
