"""One update with one step of warm-up."""
from _tiny import apart, logged, model, optax, rows, say, sft

rate = optax.schedules.warmup_constant_schedule(0.0, 1e-2, 1)
made = sft([rows(8)], optax.inject_hyperparams(optax.sgd)(learning_rate=rate))
moved, rates = apart(made, model()), logged(made, "learning_rate")
say("right" if moved else "warned" if rates == [0.0] else "wrong", f"trained to its end, weights moved by {moved}; the log has learning_rate {rates}")
