"""Layers that keep a state instead of keys and values: which code computes them, and what a cache holds of them.

transformers computes gated DeltaNet (Qwen 3.5) by PyTorch's own operations, or by the kernels of `fla` and
`causal_conv1d` where those are installed: other numbers, and other memory than a plan has traced. Here it is always
PyTorch's operations, whatever is installed, so that a run and its plan are the same program everywhere.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from workings.models.shape import ModelShape

MODEL_TYPE, MODULE = "qwen3_5_text", "transformers.models.qwen3_5.modeling_qwen3_5"
KERNELS = ("causal_conv1d_fn", "causal_conv1d_update", "chunk_gated_delta_rule", "fused_recurrent_gated_delta_rule",
           "FusedRMSNormGated")
"""What transformers' module takes from other packages; None where it has to use PyTorch's operations."""
FAST_PATH = "is_fast_path_available"
"""Whether all of them are there; where not, transformers advises to install them with every model that is made."""
HELD = ("keys", "values", "conv_states", "recurrent_states")
"""What a layer of a cache may hold, a row of each for a row of the batch."""


@contextmanager
def by_own_operations(model_type: str) -> Iterator[None]:
    """Inside, a Qwen 3.5 of transformers is made without kernels of other packages; other models as ever."""
    if model_type != MODEL_TYPE:
        yield
        return
    # Here, because it looks for those packages and loads them.
    module = import_module(MODULE)
    kept = {name: getattr(module, name) for name in (*KERNELS, FAST_PATH)}
    vars(module).update({**dict.fromkeys(KERNELS), FAST_PATH: True})
    try:
        yield
    finally:
        vars(module).update(kept)


def mix_state_formats(model: PreTrainedModel) -> None:
    """Let the filter before a state compute in the format of what it filters, with a cache as without one."""
    if model.config.model_type == MODEL_TYPE:
        for layer in model.base_model.layers:
            if hasattr(layer, "linear_attn"):
                layer.linear_attn.causal_conv1d_update = partial(_filter_one, layer.linear_attn.causal_conv1d_update)


def _filter_one(update: Any, hidden: Tensor, held: Tensor, weight: Tensor, *others: Any) -> Tensor:
    """transformers' filter of one new token, which computes in the format of its weight."""
    filtered: Tensor = update(hidden, held, weight.to(hidden.dtype), *others)
    return filtered


def has_linear_state(model: PreTrainedModel) -> bool:
    """Whether some layer keeps a state instead of keys and values."""
    return any(kind not in ("full_attention", "sliding_attention", "attention")
               for kind in getattr(model.config, "layer_types", None) or ())


def empty_cache(shape: ModelShape, model: PreTrainedModel) -> DynamicCache:
    """An empty cache for generation.

    By the kinds of layers where some keep a state, and of an unproven model; layers that slide keep all positions,
    because our masks count them all.
    """
    if shape.proven and not shape.has_state:
        return DynamicCache()
    cache = DynamicCache(config=model.config)
    cache.layers = [DynamicLayer() if isinstance(layer, DynamicSlidingWindowLayer) else layer for layer in cache.layers]
    return cache


def choose_rows(cache: DynamicCache, index: Tensor) -> None:
    """Of a cache only these rows, some perhaps several times; layer by layer, so that at most one exists twice."""
    for layer in cache.layers:
        for name in HELD:
            if (held := getattr(layer, name, None)) is not None:
                setattr(layer, name, held.index_select(0, index))


def join_caches(caches: list[DynamicCache]) -> DynamicCache:
    """Caches of several batches as one: the first, whose layers then hold the rows of all."""
    for layers in zip(*(cache.layers for cache in caches), strict=True):
        for name in HELD:
            if getattr(layers[0], name, None) is None:  # a layer of the other kind, or one that shares another one's
                continue
            parts = [getattr(layer, name) for layer in layers]
            joined = torch.cat(parts)
            del parts
            # Each layer's parts go before the next layer is put together: at most one layer exists twice.
            for layer in layers:
                setattr(layer, name, None)
            setattr(layers[0], name, joined)
    return caches[0]
