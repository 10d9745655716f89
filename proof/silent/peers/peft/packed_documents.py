"""Two rows packed by transformers' `DataCollatorWithFlattening`: the loss of both, and that of the two rows as a batch."""
import torch
from _tiny import logged, say, trainer
from transformers import DataCollatorWithFlattening

rows = [{"input_ids": [*range(first, first + 24)], "labels": [*range(first, first + 24)]} for first in (5, 90)]
losses = []
for collator in (lambda some: {name: torch.tensor([row[name] for row in some]) for name in some[0]},
                 DataCollatorWithFlattening()):
    one = trainer([24, 24], per_device_train_batch_size=2)
    one.train_dataset, one.data_collator = rows, collator
    one.train()
    losses.append(round(logged(one, "loss")[0], 5))
say("right" if abs(losses[0] - losses[1]) < 1e-4 else "wrong", f"loss {losses[0]} apart, {losses[1]} packed into one sequence")
