"""A batch without a learned token, with a decay of the weights."""
import optax
from _tiny import apart, logged, model, rows, say, sft

try:
    tuned = sft([rows(0, prompt=9)] * 2, optax.adamw(1e-2))
    say("wrong", f"trained to its end, loss {logged(tuned, 'loss')[0]:.1f}, weights moved by {apart(tuned, model()):.2g}")
except (ValueError, RuntimeError) as error:
    say("refused", " ".join(str(error).split())[:150])
