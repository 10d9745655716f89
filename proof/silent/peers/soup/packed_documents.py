"""Two rows packed into one sequence: the loss of both, and the loss of the two rows alone."""
import warnings

from _tiny import folder, logged, say, trainer

rows = [{"messages": [{"role": "user", "content": "ab"}, {"role": "assistant", "content": text}]}
        for text in ("efgh" * 6, "zyxw" * 6)]
place, losses = folder(), []
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    for packing in (False, True):
        made = trainer(rows, place, {"batch_size": 2 - packing, "packing": packing})
        made.trainer.train()
        losses.append(round(logged(made, "loss")[0], 5))
warned = any("contamination" in str(one.message) for one in said)
say("right" if abs(losses[0] - losses[1]) < 1e-4 else "warned" if warned else "wrong",
    f"loss {losses[0]} apart, {losses[1]} packed into {len(made.trainer.train_dataset)} sequence; warned: {warned}")
