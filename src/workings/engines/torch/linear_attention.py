"""Layers that keep a state instead of keys and values: gated DeltaNet (Qwen 3.5), and caches of such models.

transformers would use the kernels of `fla` and `causal_conv1d` where they are installed, with other numbers and other
memory than a plan has traced. Here PyTorch's operations always compute these layers.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import Any

import torch
import torch.nn.functional as F
import transformers
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from workings.errors import RequestError
from workings.hints import interpreter

MODEL_TYPE, MODULE = "qwen3_5_text", "transformers.models.qwen3_5.modeling_qwen3_5"
KERNELS = ("causal_conv1d_fn", "causal_conv1d_update", "chunk_gated_delta_rule", "fused_recurrent_gated_delta_rule",
           "FusedRMSNormGated")
"""Functions that transformers' module takes from other packages; None makes it use PyTorch's operations."""
FAST_PATH = "is_fast_path_available"
"""Whether all of them are installed. If it is false, every new model logs the advice to install them."""
CHUNK = 64
"""Positions of a chunk, as in transformers."""
HELD = ("keys", "values", "conv_states", "recurrent_states")
"""Tensors that a layer of a cache may have, with one row for each row of the batch."""


@contextmanager
def by_own_operations(model_type: str) -> Iterator[None]:
    """Inside, transformers makes a Qwen 3.5 without kernels of other packages; other models do not change."""
    if model_type != MODEL_TYPE:
        yield
        return
    module = import_module(MODULE)  # loads those packages, which other models do not need
    if missing := [name for name in (*KERNELS, FAST_PATH) if not hasattr(module, name)]:
        raise RequestError(f"a {MODEL_TYPE} model does not run with transformers {transformers.__version__}: it has no "
                           f"{missing[0]}", "a version that takes its kernels by these names, as 5.12.1 does",
                           f"{interpreter()} -m pip install 'transformers==5.12.1'")
    kept = {name: getattr(module, name) for name in (*KERNELS, FAST_PATH)}
    vars(module).update({**dict.fromkeys(KERNELS), FAST_PATH: True})
    try:
        yield
    finally:
        vars(module).update(kept)


def compute_states(model: PreTrainedModel) -> None:
    """Let layers with a state compute it by `delta_rule`, and filter new tokens in the tokens' format."""
    if model.config.model_type != MODEL_TYPE:
        return
    for layer in model.base_model.layers:
        if hasattr(layer, "linear_attn"):
            layer.linear_attn.chunk_gated_delta_rule = delta_rule
            layer.linear_attn.causal_conv1d_update = partial(_filter_one, layer.linear_attn.causal_conv1d_update)


def _filter_one(update: Any, hidden: Tensor, held: Tensor, weight: Tensor, *others: Any) -> Any:
    """transformers' filter of one new token, which computes in the format of its weight."""
    return update(hidden, held, weight.to(hidden.dtype), *others)


def delta_rule(query: Tensor, key: Tensor, value: Tensor, g: Tensor, beta: Tensor, *,
               initial_state: Tensor | None = None, output_final_state: bool = False,
               **others: Any) -> tuple[Tensor, Tensor | None]:
    """The gated delta rule (Yang et al., 2024, https://arxiv.org/abs/2412.06464) in float32, in place of transformers'.

    For each token in turn, with a state ``[K, V]``:

        decayed = exp(g) * state
        written = beta * (value - key @ decayed)  # what the state already returns for the key is subtracted
        state = decayed + outer(key, written)
        output = query @ state / sqrt(K)

    Within a chunk what a token writes depends on the tokens before it: a triangular system (section 3.3 of the paper),
    which is solved at once. transformers goes through the positions of a chunk one by one, in sixty times as many
    operations.

    Args:
        query, key: ``[B, S, H, K]`` vectors, divided by their lengths here.
        value: ``[B, S, H, V]``.
        g: ``[B, S, H]`` logarithms of decay.
        beta: ``[B, S, H]`` share of its value that each token writes.
        initial_state: ``[B, H, K, V]``; None: zeros.
        output_final_state: whether the state after the last token comes back.
        others: arguments for transformers' kernels, not used.
    """
    length = query.shape[1]
    q, k, v, g, beta = (_chunks(x) for x in (_unit(query), _unit(key), value, g, beta))
    # Sums of logarithms: a product of decays over a chunk could underflow.
    decay = g.cumsum(-1)
    # [B, H, N, C, C]: decay from an earlier token to a later one; the first `tril` keeps `exp` from overflowing.
    decay_between = (decay[..., :, None] - decay[..., None, :]).tril().exp().tril()
    weighted_k = k * beta[..., None]
    right_side = torch.cat([v * beta[..., None], weighted_k * decay.exp()[..., None]], -1)
    solved = torch.linalg.solve_triangular(((weighted_k @ k.mT) * decay_between).tril(-1), right_side, upper=False,
                                           unitriangular=True)
    # What each token writes if the state before the chunk is zero, and the key whose value there is subtracted else.
    written_alone, state_keys = solved.split([v.shape[-1], k.shape[-1]], -1)
    q = q * q.shape[-1] ** -0.5
    scores_inside, q_before = (q @ k.mT) * decay_between, q * decay.exp()[..., None]
    whole_decay = decay[..., -1:]
    k_at_end = (k * (whole_decay - decay).exp()[..., None]).mT
    state = q.new_zeros((*q.shape[:2], k.shape[-1], v.shape[-1])) if initial_state is None else initial_state.float()
    out = []
    for chunk in range(q.shape[2]):
        written = written_alone[:, :, chunk] - state_keys[:, :, chunk] @ state
        out.append(q_before[:, :, chunk] @ state + scores_inside[:, :, chunk] @ written)
        state = state * whole_decay[:, :, chunk, :, None].exp() + k_at_end[:, :, chunk] @ written
    rows = torch.stack(out, 2).flatten(2, 3)[:, :, :length]
    return rows.transpose(1, 2).contiguous().to(query.dtype), state if output_final_state else None


def _unit(x: Tensor) -> Tensor:
    """Vectors divided by their lengths; vectors of zeros stay zero. The constant is transformers'."""
    return x * torch.rsqrt((x * x).sum(-1, keepdim=True) + 1e-6)


def _chunks(x: Tensor) -> Tensor:
    """``[B, S, H, ...]`` as float32 ``[B, H, N, C, ...]``: N chunks of C positions, padded with zeros."""
    padding = (0, 0) * (x.ndim - 3) + (0, -x.shape[1] % CHUNK)  # from the last axis on
    return F.pad(x.transpose(1, 2).float(), padding).unflatten(2, (-1, CHUNK))


def has_linear_state(model: PreTrainedModel) -> bool:
    """Whether some layer keeps a state instead of keys and values."""
    return any(kind not in ("full_attention", "sliding_attention", "attention")
               for kind in getattr(model.config, "layer_types", None) or ())


def empty_cache(model: PreTrainedModel) -> DynamicCache:
    """An empty cache. Layers with a sliding window keep all positions in it, because our masks count them all."""
    cache = DynamicCache(config=model.config)
    cache.layers = [DynamicLayer() if isinstance(layer, DynamicSlidingWindowLayer) else layer for layer in cache.layers]
    return cache


def join_caches(caches: list[DynamicCache]) -> DynamicCache:
    """Put the rows of all caches into the first one, and return it."""
    for layers in zip(*(cache.layers for cache in caches), strict=True):
        for name in HELD:
            if getattr(layers[0], name, None) is None:
                continue
            joined = torch.cat([getattr(layer, name) for layer in layers])
            # Parts are freed before the next tensor is joined, so at most one tensor exists twice.
            for layer in layers:
                setattr(layer, name, None)
            setattr(layers[0], name, joined)
    return caches[0]
