"""The learning rate of each update, next to the one that is logged for it."""
import optax
from _tiny import logged, rows, say, sft

schedule = optax.linear_schedule(1e-2, 0.0, 4)
tuned = sft([rows(8)] * 4, optax.inject_hyperparams(optax.sgd)(learning_rate=schedule))
used, rates = [round(float(schedule(step)), 5) for step in range(4)], [round(x, 5) for x in logged(tuned, "learning_rate")]
say("right" if used == rates else "wrong", f"used {used}, logged {rates}")
