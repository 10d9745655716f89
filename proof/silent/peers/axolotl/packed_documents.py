"""Two rows with `sample_packing`: the loss of both, and the loss of the two rows as a batch."""
from _tiny import folder, logged, run, said, say

rows = [{"messages": [{"role": "user", "content": "abcd"}, {"role": "assistant", "content": text}]}
        for text in ("efgh" * 6, "zyxw" * 6)]
place, losses = folder(), []
for asked in ({"micro_batch_size": 2}, {"sample_packing": True}):
    losses.append(round(logged(run(rows, place, attn_implementation="sdpa", **asked), "loss")[0], 5))
warned = "contaminat" in said.getvalue() or "cross-attention" in said.getvalue()
say("right" if abs(losses[0] - losses[1]) < 1e-4 else "warned" if warned else "wrong",
    f"loss {losses[0]} apart, {losses[1]} packed into one sequence; warned: {warned}")
