"""Two rows packed into one sequence: the loss of both, and the loss of the two rows alone."""
import io
import logging

from _tiny import logged, say, sft

said = io.StringIO()
logging.getLogger("trl").addHandler(logging.StreamHandler(said))
rows = [{"text": "abcdefgh" * 3}, {"text": "zyxwvuts" * 3}]
losses = []
for packing in (False, True):
    trainer = sft(rows, packing=packing, per_device_train_batch_size=2 - packing, max_length=64)
    trainer.train()
    losses.append(round(logged(trainer, "loss")[0], 5))
same = abs(losses[0] - losses[1]) < 1e-4
warned = "contamination" in said.getvalue() or "flash" in said.getvalue().lower()
say("right" if same else "warned" if warned else "wrong", f"loss {losses[0]} apart, {losses[1]} packed into "
    f"{len(trainer.train_dataset)} sequence; warned: {warned}")
