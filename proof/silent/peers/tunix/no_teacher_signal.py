"""Distillation from the student itself, and from another model."""
from _tiny import SHAPE, apart, inputs, model, nnx, optax, rows, say
from tunix.distillation import distillation_trainer, strategies
from tunix.models.llama3.model import Llama3, ModelConfig


def forward(one, input_tokens, positions, attention_mask, **more):
    return one(input_tokens, positions, None, attention_mask)[0]


moved = []
for seed in (0, 7):
    strategy = strategies.LogitStrategy(forward, forward, lambda input_tokens, **more: nnx.one_hot(input_tokens, 64), alpha=1.0)
    trainer = distillation_trainer.DistillationTrainer(model(), Llama3(ModelConfig(**SHAPE), rngs=nnx.Rngs(seed)), strategy,
        optax.sgd(1.0), distillation_trainer.TrainingConfig(eval_every_n_steps=99))
    batch = distillation_trainer.TrainingInput(**rows(8))
    trainer.with_gen_model_input_fn(lambda x: inputs({"input_tokens": x.input_tokens, "input_mask": x.input_mask})).train([batch])
    moved.append(apart(trainer, model()))
say("right" if moved[1] > 10 * moved[0] else "wrong", f"weights moved by {moved[0]:.1e} under itself, by {moved[1]:.1e} under another teacher")
