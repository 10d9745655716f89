"""A tiny Llama of Tunix, batches of token ids, and its `PeftTrainer` on them."""

import os
import sys
import tempfile

os.environ |= {"JAX_PLATFORMS": "cpu", "TQDM_DISABLE": "1", "TF_CPP_MIN_LOG_LEVEL": "3",
               "JAX_COMPILATION_CACHE_DIR": tempfile.mkdtemp(), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}

import jax
import numpy as np
import optax
from absl import logging
from flax import nnx
from tunix.models.llama3.model import Llama3, ModelConfig
from tunix.sft import utils
from tunix.sft.peft_trainer import PeftTrainer, TrainingConfig

logging.set_verbosity(logging.ERROR)
SHAPE = {"num_layers": 1, "vocab_size": 64, "embed_dim": 16, "hidden_dim": 24, "num_heads": 2, "head_dim": 8,
         "num_kv_heads": 1, "rope_theta": 10_000, "norm_eps": 1e-5}


def model():
    return Llama3(ModelConfig(**SHAPE), rngs=nnx.Rngs(0))


def rows(*counts, prompt=3):
    """A batch of rows of 32 random tokens, this many of them learned."""
    draw = np.random.default_rng(sum(counts))
    tokens, learned = np.zeros((len(counts), 32), np.int32), np.zeros((len(counts), 32), bool)
    for row, count in enumerate(counts):
        tokens[row, :prompt + count] = draw.integers(1, 60, prompt + count)
        learned[row, prompt:prompt + count] = True
    return {"input_tokens": tokens, "input_mask": learned}


def together(*batches):
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}


def inputs(x):
    real = x["input_tokens"] != 0
    return {**x, "positions": utils.build_positions_from_mask(real), "attention_mask": utils.make_causal_attn_mask(real)}


def sft(batches, rule=None, trained=None, **settings):
    trainer = PeftTrainer(trained or model(), rule or optax.sgd(1.0), TrainingConfig(eval_every_n_steps=99, **settings))
    trainer.with_gen_model_input_fn(inputs).train(batches)
    return trainer


def straight_and_resumed():
    """Trainers of the same six steps: in one piece, and stopped after three and resumed in a new trainer."""
    batches, folder = [rows(count) for count in (3, 5, 8, 12, 17, 23)], tempfile.mkdtemp()

    def rule():
        rate = optax.schedules.warmup_cosine_decay_schedule(0.0, 1e-2, 2, 6)
        return optax.inject_hyperparams(optax.adamw)(learning_rate=rate)

    straight = sft(batches, rule())
    sft(batches, rule(), max_steps=3, checkpoint_root_directory=folder)
    return straight, sft(batches, rule(), checkpoint_root_directory=folder)


def logged(trainer, name):
    return [float(x) for x in trainer.metrics_logger.get_metric_history("", name, "train")]


def apart(first, second):
    """Largest difference of the weights of two models or trainers."""
    ours, theirs = (jax.tree.leaves(nnx.state(getattr(one, "model", one), nnx.Param)) for one in (first, second))
    return max(float(abs(a - b).max()) for a, b in zip(ours, theirs, strict=True))


def say(verdict, evidence):
    sys.stdout.write(f"\n{verdict}: {evidence}\n")
