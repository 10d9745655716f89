"""Tunix's `PeftTrainer` without its loop: its train step as a pure function, with optax's AdamW.

`check_request` refuses what Tunix's models and trainer do not have.

Shape suffixes: B rows, S positions.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from tunix.sft.peft_trainer import PeftTrainer, TrainingConfig

from workings.config.training import AdamWConfig
from workings.engines.base import EngineRequest
from workings.engines.jax.step import changed_share
from workings.errors import RequestError
from workings.models.registry import family_of
from workings.models.shape import ModelShape

FAMILIES = ("gemma", "gemma2", "gemma3")
EPSILON, BASE, PATTERN = 1e-6, 10_000.0, 6
"""Constants in Tunix's classes: of the norms, of the rotation (Gemma 1 and 2), and of Gemma 3's layers."""


def check_shape(shape: ModelShape) -> None:
    """Raise `RequestError` for a model that Tunix's classes would compute differently, or not at all."""
    family_of(shape).check_engine("tunix", shape)
    scale = shape.query_scale or shape.head_dim ** -0.5
    differing = {
        f"family {shape.family}": shape.family not in FAMILIES,
        f"rms_norm_eps {shape.rms_norm_eps:g}": shape.rms_norm_eps != EPSILON,
        "a separate embedding for the logits": not shape.tied_embeddings,
        f"rope_theta {shape.rope_theta:g}": shape.family != "gemma3" and shape.rope_theta != BASE,
        f"a global layer every {shape.sliding_pattern}": shape.family == "gemma3" and shape.sliding_pattern != PATTERN,
        # Tunix always scales by the root of the head size.
        f"query_scale {scale:g}": abs(scale * shape.head_dim ** 0.5 - 1) > 1e-6,
        "soft caps": shape.family == "gemma3" and bool(shape.attention_softcap or shape.final_softcap),
    }
    if wrong := [what for what, differs in differing.items() if differs]:
        raise RequestError(f"engine tunix has no model with {', '.join(wrong)}",
                           "Gemma 1, 2 or 3 as published: Tunix's classes have the other values written into them",
                           "engine=jax")


def model_class(shape: ModelShape, dtype: Any = jnp.float32, *, remat: bool = False) -> Callable[[], nnx.Module]:
    """Function that makes Tunix's model of this shape with undefined weights. Raises as `check_shape`."""
    check_shape(shape)
    return _gemma3(shape, dtype, remat) if shape.family == "gemma3" else _gemma(shape, remat)


def _sizes(shape: ModelShape) -> dict[str, Any]:
    return {"num_layers": shape.layers, "num_embed": shape.vocab_size, "embed_dim": shape.width,
            "hidden_dim": shape.mlp_width, "num_heads": shape.heads, "head_dim": shape.head_dim,
            "num_kv_heads": shape.kv_heads, "sliding_window_size": shape.sliding_window or None}


def _gemma(shape: ModelShape, remat: bool) -> Callable[[], nnx.Module]:
    from tunix.models.gemma import model as theirs

    kinds = [theirs.AttentionType.LOCAL_SLIDING if shape.slides(i) else theirs.AttentionType.GLOBAL
             for i in range(shape.layers)]
    config = theirs.ModelConfig(
        **_sizes(shape), final_logit_softcap=shape.final_softcap or None,
        attn_logits_soft_cap=shape.attention_softcap or None, use_post_attn_norm=shape.post_norms,
        use_post_ffw_norm=shape.post_norms, attention_types=tuple(kinds),
        remat_config=theirs.RematConfig.DECODER if remat else theirs.RematConfig.NONE)
    return lambda: theirs.Gemma(config, rngs=nnx.Rngs(0))


def _gemma3(shape: ModelShape, dtype: Any, remat: bool) -> Callable[[], nnx.Module]:
    from tunix.models.gemma3 import model as theirs

    config = theirs.ModelConfig(
        **_sizes(shape), local_base_frequency=int(shape.local_rope_theta), global_base_frequency=int(shape.rope_theta),
        global_scale_factor=shape.rope_scaling, param_dtype=dtype,
        remat_config=theirs.RematConfig.DECODER if remat else theirs.RematConfig.NONE)
    return lambda: theirs.Gemma3(config, rngs=nnx.Rngs(0))


@dataclass(frozen=True)
class TunixTrainer:
    """A trainer, with its model and optimizer as graphs (`nnx.GraphDef`) and states (`nnx.State`) of shapes."""

    trainer: Any
    model: Any
    optimizer: Any
    model_state: Any
    optimizer_state: Any

    def step(self, model_state: Any, optimizer_state: Any, inputs: dict[str, jax.Array],
             learning_rate: jax.Array) -> tuple[Any, Any, jax.Array]:
        """New states and ``[loss, grad_norm, share_of_weights_changed]``, by `PeftTrainer`'s own train step."""
        before = named(model_state)  # read now, because the update writes to the merged variables
        model, optimizer = nnx.merge(self.model, model_state), nnx.merge(self.optimizer, optimizer_state)
        optimizer.opt_state.hyperparams["learning_rate"].set_value(learning_rate)
        loss, _, norm = self.trainer._train_step(model, optimizer, inputs)
        new_model, new_optimizer = nnx.state(model), nnx.state(optimizer)
        changed = changed_share(before, named(new_model))
        return new_model, new_optimizer, jnp.stack([loss, norm, changed])

    def evaluate(self, model_state: Any, inputs: dict[str, jax.Array]) -> jax.Array:
        """Mean loss over the supervised tokens: `PeftTrainer`'s own evaluation step."""
        return self.trainer._eval_step(nnx.merge(self.model, model_state), inputs)[0]


def named(state: Any) -> dict[str, jax.Array]:
    """An nnx state as dotted name -> array."""
    return {".".join(map(str, path)): variable.get_value() for path, variable in nnx.to_flat_state(state)}


def make_trainer(make_model: Callable[[], nnx.Module], config: AdamWConfig) -> TunixTrainer:
    """Build model, optimizer and trainer as shapes only; nothing is allocated."""
    made: list[PeftTrainer] = []  # because `eval_shape` returns only shapes

    def build() -> tuple[Any, Any]:
        made.append(PeftTrainer(make_model(), _optimizer(config), TrainingConfig(eval_every_n_steps=1)))
        return made[0].model, made[0].optimizer

    model, optimizer = nnx.eval_shape(build)
    trainer: Any = made[0].with_gen_model_input_fn(lambda inputs: model_input(**inputs))
    trainer.model = trainer.optimizer = None  # they are tracers of `eval_shape`
    (model_graph, model_state), (optimizer_graph, optimizer_state) = nnx.split(model), nnx.split(optimizer)
    return TunixTrainer(trainer=trainer, model=model_graph, optimizer=optimizer_graph, model_state=model_state,
                        optimizer_state=optimizer_state)


def _optimizer(config: AdamWConfig) -> optax.GradientTransformation:
    """AdamW with decay of matrices only, after clipping."""
    def rule(learning_rate: Any) -> optax.GradientTransformation:
        adamw = optax.adamw(learning_rate, b1=config.beta1, b2=config.beta2, eps=config.epsilon,
                            weight_decay=config.weight_decay,
                            mask=lambda params: jax.tree.map(lambda x: x.ndim >= 2, params))
        return optax.chain(optax.clip_by_global_norm(config.clip_norm), adamw) if config.clip_norm else adamw

    return optax.inject_hyperparams(rule)(learning_rate=0.0)


def model_input(tokens: jax.Array, supervised: jax.Array, real: jax.Array) -> dict[str, Any]:
    """Arguments of Tunix's default loss, from ``[B, S]``: 1 if a token is ``supervised``, 0 if it is not ``real``."""
    index = jnp.arange(tokens.shape[1])
    seen = (real != 0)[:, None, :] & (index[None, :] <= index[:, None])[None]
    positions = jnp.broadcast_to(index, tokens.shape)
    return {"input_tokens": tokens, "input_mask": supervised, "positions": positions, "attention_mask": seen}


def check_request(request: EngineRequest) -> AdamWConfig:
    """The optimizer's settings. Raises `RequestError` for what has no counterpart in Tunix's own model and trainer."""
    check_shape(request.shape)
    precision, memory, stored = request.precision, request.memory, request.precision.parameters
    same_format = "Tunix computes and keeps moments in the number format of the weights"
    for key, given, taken, why in (
            ("method.name", request.method.name, ("full",), "every weight is trained"),
            ("data.packing", "on" if request.packed else "none", ("none",), "PeftTrainer knows no packed rows"),
            ("mesh.tp", request.mesh.tp, (1,), "it runs on one device"),
            ("mesh.replicate", request.mesh.replicate, (1,), "it runs on one device"),
            ("precision.rounding", precision.rounding, ("nearest",), "optax adds its updates to the stored weights"),
            ("precision.compute", precision.compute, (stored,), same_format),
            ("precision.moments", precision.moments, (stored,), same_format),
            ("memory.attention", memory.attention, ("auto", "plain"), "Tunix's Gemma has no other"),
            ("memory.remat", memory.remat, ("none", "layer"), "Tunix recomputes whole layers"),
            ("memory.loss_chunk", memory.loss_chunk, (0,), "its loss has all logits, and a one-hot of their size"),
            ("optimizer.name", request.optimizer.name, ("adamw",),
             "optax's Adafactor factors Tunix's per-head tensors, which is another optimizer")):
        if given not in taken:
            raise RequestError(f"engine tunix does not take {key}: {given}", f"{' or '.join(map(str, taken))}: {why}",
                               f"{key}={taken[-1]}, or engine=jax")
    assert isinstance(request.optimizer, AdamWConfig)  # by its name
    return request.optimizer
