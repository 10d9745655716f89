"""The loss of Tunix's GRPO on a row of four completion tokens, and the size of its gradient."""
from types import SimpleNamespace

import numpy as np
from _tiny import jax, model, nnx
from tunix.rl import common
from tunix.rl.algo_core import grpo_loss_fn
from tunix.rl.grpo.grpo_learner import GRPOConfig


def loss(change, advantage, mask=None, **settings):
    """Loss and gradient where the behavior's log probabilities are the model's, changed."""
    made, ids = model(), np.array([[8, 9, 10, 11]] * 2, np.int32)
    config = GRPOConfig(beta=0.0, num_generations=2, **settings)
    config.temperature, config.kl_clamp_value = 1.0, None
    asked = {"prompt_tokens": np.array([[5, 7]] * 2, np.int32), "completion_tokens": ids, "pad_id": 0, "eos_id": 2}
    scored, _ = common.compute_per_token_logps(*nnx.split(made), **asked, stop_gradient=True, return_logits=True)
    row = SimpleNamespace(prompt_ids=asked["prompt_tokens"], completion_ids=ids, advantages=np.array([advantage] * 2, np.float32),
                          completion_mask=np.ones_like(ids) if mask is None else mask, ref_per_token_logps=None,
                          old_per_token_logps=change(np.array(scored)))
    value, gradient = nnx.value_and_grad(lambda one: grpo_loss_fn(one, row, config, 0, 2)[0])(made)
    return float(value), float(np.sqrt(sum((x ** 2).sum() for x in jax.tree.leaves(gradient))))
