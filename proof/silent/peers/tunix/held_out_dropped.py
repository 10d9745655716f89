"""Held-out batches of four rows and of one: the last row counts."""
from _tiny import PeftTrainer, TrainingConfig, inputs, model, optax, rows, say, together


def loss(last):
    trainer = PeftTrainer(model(), optax.sgd(1.0), TrainingConfig(eval_every_n_steps=99))
    trainer.with_gen_model_input_fn(inputs).train([rows(8)], [together(*[rows(count) for count in (3, 5, 8, 12)]), last])
    return float(trainer.metrics_logger.get_metric_history("", "loss", "eval")[0])


moved = abs(loss(rows(6)) - loss(rows(25)))
say("right" if moved > 1e-4 else "wrong", f"another last row moves the loss by {moved:.4f}")
