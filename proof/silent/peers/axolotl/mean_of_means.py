"""Rows of few and of many learned tokens: as one batch of two, and as two micro batches."""
from _tiny import folder, say, trained

rows = [{"messages": [{"role": "user", "content": "ab"}, {"role": "assistant", "content": text}]} for text in ("c", "d" * 60)]
place, found = folder(), []
for size, accumulation in ((2, 1), (1, 2)):
    [line, *_] = trained(rows, place, micro_batch_size=size, gradient_accumulation_steps=accumulation)
    found.append((round(line["loss"], 4), round(line["grad_norm"], 4)))
same = all(abs(a - b) < 2e-3 for a, b in zip(*found))
say("right" if same else "wrong", f"loss and gradient norm {found[0]} in one batch, {found[1]} accumulated")
