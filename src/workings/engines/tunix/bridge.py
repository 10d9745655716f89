"""Between our state and Tunix's: weights both ways, and our model with Tunix's call signature.

`OurModel` is taken by Tunix's `Sampler`, `PeftTrainer` and learners in the place of its own models.

Shape suffixes: B rows, S query positions, T cache slots, D width, V vocabulary, K key/value heads, H head size.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from workings.engines.jax.attention import masked_attention
from workings.engines.jax.layers import layer_constants
from workings.engines.jax.model import (
    block,
    embed,
    final_logits,
    final_norm,
    hidden_states,
    query_scale,
    unembedding,
)
from workings.engines.jax.params_tree import Params, stacks
from workings.engines.jax.remat import POLICIES
from workings.engines.jax.sharding import Layout, make_layout
from workings.engines.tunix.layout import Path, from_tunix, to_tunix
from workings.engines.tunix.models import model_class
from workings.errors import RequestError
from workings.models.shape import ModelShape
from workings.models.weights import EMBEDDING


def tunix_model(params: Params, shape: ModelShape, *, remat: bool = False) -> nnx.Module:
    """Tunix's own model with our weights, bit for bit.

    Raises:
        RequestError: Tunix's classes cannot be a model of this shape.
    """
    dtype = params[EMBEDDING].dtype
    graph, state = nnx.split(nnx.eval_shape(model_class(shape, dtype, remat=remat)))
    return nnx.merge(graph, filled(state, jax.jit(partial(to_tunix, shape=shape))(params)))


def filled(state: Any, arrays: dict[Path, jax.Array]) -> Any:
    """An nnx state with these arrays in the place of its own.

    Raises:
        RequestError: a tensor is missing or left over, or has another shape.
    """
    there = dict(nnx.to_flat_state(state))
    # Compared before anything is put in: nnx would take an array of another shape and fail much later, inside a step.
    wrong = {".".join(map(str, path)) for path in there.keys() ^ arrays.keys()}
    wrong |= {".".join(map(str, path)) for path in there.keys() & arrays.keys()
              if there[path].get_value().shape != arrays[path].shape}
    if wrong:
        raise RequestError(f"tensors that Tunix's model does not have like this: {', '.join(sorted(wrong)[:5])}",
                           "the same tensors in both")
    return nnx.from_flat_state([(path, variable.replace(arrays[path])) for path, variable in there.items()])


def our_params(model: nnx.Module, shape: ModelShape) -> Params:
    """Weights of Tunix's model as our tree, bit for bit."""
    flat = nnx.to_flat_state(nnx.state(model, nnx.Param))
    return jax.jit(partial(from_tunix, shape=shape))({path: variable.get_value() for path, variable in flat})


class OurModel(nnx.Module):  # type: ignore[misc]  # Flax is not followed by the type checker
    """Our model, called as Tunix calls its own.

    Args:
        params: our tree; its arrays become the module's `nnx.Param`, stacked and named as they are.
        shape: of the model; any family of the JAX engine whose layers are alike.
        layout: the mesh; one device by default.
        remat: `none` or `layer`.
    """

    def __init__(self, params: Params, shape: ModelShape, layout: Layout | None = None, remat: str = "none") -> None:
        # Tunix's cache and sampler have one size of keys for all layers, so only one stack of equal layers fits.
        if len(stacks(shape)) > 1:
            raise RequestError(f"a {shape.family} model in Tunix's sampler", "a model whose layers are alike",
                               "engine=jax")
        self.shape = shape
        self.layout = layout or make_layout(tuple(jax.devices()[:1]), 1, 1)
        self.remat = remat
        self.outer = nnx.Dict({name: nnx.Param(x) for name, x in params.items() if name != "layers"})
        self.layers = nnx.Dict({name: nnx.Param(x) for name, x in params["layers"].items()})

    @property
    def num_embed(self) -> int:
        """Size of the vocabulary."""
        return self.shape.vocab_size

    def params(self) -> Params:
        """Our tree, as it is now."""
        tree: Params = {name: x.get_value() for name, x in self.outer.items()}
        return tree | {"layers": {name: x.get_value() for name, x in self.layers.items()}}

    def init_cache(self, batch_size: int, cache_size: int, dtype: Any) -> dict[str, dict[str, jax.Array]]:
        """An empty cache in Tunix's form: ``layer_i`` -> ``k``, ``v`` ``[B, T, K, H]`` and ``end_index`` ``[B]``."""
        size = (batch_size, cache_size, self.shape.kv_heads, self.shape.head_dim)
        return {f"layer_{i}": {"k": jnp.zeros(size, dtype), "v": jnp.zeros(size, dtype),
                               "end_index": jnp.zeros((batch_size,), jnp.int32)} for i in range(self.shape.layers)}

    def __call__(self, last_tokens: jax.Array, positions: jax.Array, cache: Any, attention_mask: jax.Array,
                 output_hidden_states: bool = False) -> tuple[jax.Array, Any]:
        """Float32 logits ``[B, S, V]`` and the new cache (None without one).

        Args:
            last_tokens: ``[B, S]``.
            positions: ``[B, S]`` of the tokens in their rows.
            cache: from `init_cache` or the last call, or None.
            attention_mask: ``[B, S, T]``, true where a query may look; T is S without a cache.
            output_hidden_states: keep the normed hidden states as Tunix does (`all_hidden_states`).
        """
        params = self.params()
        if cache is None:
            hidden, new = self._without_cache(params, last_tokens, positions, attention_mask), None
        else:
            hidden, new = self._with_cache(params, last_tokens, positions, cache, attention_mask)
        if output_hidden_states:
            # The name under which Tunix's own models leave their hidden states.
            self.sow(nnx.Intermediate, "all_hidden_states", hidden)
        return final_logits(hidden, unembedding(params), self.shape), new

    def _without_cache(self, params: Params, tokens: jax.Array, positions: jax.Array, mask: jax.Array) -> jax.Array:
        index = jnp.arange(tokens.shape[1])
        distance = index[:, None] - index[None]

        # Tunix's mask knows padding and causality; the window differs by layer and comes from our scan.
        def attention(q: jax.Array, k: jax.Array, v: jax.Array, *, window: jax.Array, scale: float, softcap: float,
                      **_: Any) -> jax.Array:
            return masked_attention(q, k, v, mask & (distance < window), scale=scale, softcap=softcap)

        # One segment for all: the mask says everything, and the attention above does not look at segments.
        return hidden_states(params, self.shape, tokens, positions, jnp.ones_like(tokens), attention=attention,
                             remat=POLICIES[self.remat], dtype=params[EMBEDDING].dtype, layout=self.layout)

    def _with_cache(self, params: Params, tokens: jax.Array, positions: jax.Array, cache: Any,
                    mask: jax.Array) -> tuple[jax.Array, Any]:
        """New tokens go to the slots after those that are filled, so slots are as far apart as positions."""
        constants, new = layer_constants(self.shape), dict[str, Any]()
        x = embed(params[EMBEDDING], tokens, self.shape, params[EMBEDDING].dtype, self.layout)
        # Tunix's cache is a dictionary by layer, so layers are written out, which compiles longer than a scan.
        for i in range(self.shape.layers):
            held = cache[f"layer_{i}"]
            # Every row has filled as many slots as the others, so the first row's count is that of all.
            start = held["end_index"][0]
            slots = jnp.arange(held["k"].shape[1])
            distance = (start + jnp.arange(tokens.shape[1]))[:, None] - slots[None]

            def attend(q: jax.Array, k: jax.Array, v: jax.Array, inputs: Any, held: Any = held, start: Any = start,
                       distance: jax.Array = distance, name: str = f"layer_{i}") -> jax.Array:
                keys = jax.lax.dynamic_update_slice_in_dim(held["k"], k.astype(held["k"].dtype), start, 1)
                values = jax.lax.dynamic_update_slice_in_dim(held["v"], v.astype(held["v"].dtype), start, 1)
                new[name] = {"k": keys, "v": values, "end_index": held["end_index"] + tokens.shape[1]}
                return masked_attention(q, keys, values, mask & (distance < inputs["window"]),
                                        scale=query_scale(self.shape), softcap=self.shape.attention_softcap)

            weights = {name: w[i] for name, w in params["layers"].items()}
            inputs = {name: c[i] for name, c in constants.items()}
            x, _ = block(x, weights, positions, self.shape, attend, inputs, self.layout, i)
        return final_norm(x, params, self.shape), new
