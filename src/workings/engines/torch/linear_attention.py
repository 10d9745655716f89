"""Layers that keep a state instead of keys and values: which code computes them, and what a cache holds of them.

transformers computes gated DeltaNet (Qwen 3.5) by PyTorch's own operations, or by the kernels of `fla` and
`causal_conv1d` where those are installed: other numbers, and other memory than a plan has traced. Here it is always
PyTorch's operations alone, so that a run and its plan are the same program everywhere.

Rows of many tokens are computed by `delta_rule`, with one triangular system a chunk where transformers' own function
goes through the chunk's positions one by one, in sixty times as many operations.
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
"""Whether all of them are there; where not, transformers advises to install them with every model that is made."""
CHUNK = 64
"""Positions of a chunk, as in transformers: within it a product a pair, between chunks the state."""
HELD = ("keys", "values", "conv_states", "recurrent_states")
"""Tensors that a layer of a cache may have, with one row for each row of the batch."""


@contextmanager
def by_own_operations(model_type: str) -> Iterator[None]:
    """Inside, a Qwen 3.5 of transformers is made without kernels of other packages; other models as ever."""
    if model_type != MODEL_TYPE:
        yield
        return
    # Here, because it looks for those packages and loads them.
    module = import_module(MODULE)
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
    """Let layers with a state compute it by `delta_rule`, and its filter in the format of what is filtered."""
    if model.config.model_type == MODEL_TYPE:
        for layer in model.base_model.layers:
            if hasattr(layer, "linear_attn"):
                # Set on each layer, because transformers stores the functions there when the layer is made.
                layer.linear_attn.chunk_gated_delta_rule = delta_rule
                layer.linear_attn.causal_conv1d_update = partial(_filter_one, layer.linear_attn.causal_conv1d_update)


def _filter_one(update: Any, hidden: Tensor, held: Tensor, weight: Tensor, *others: Any) -> Any:
    """transformers' filter of one new token, which computes in the format of its weight."""
    return update(hidden, held, weight.to(hidden.dtype), *others)


def delta_rule(query: Tensor, key: Tensor, value: Tensor, g: Tensor, beta: Tensor, *,
               initial_state: Tensor | None = None, output_final_state: bool = False,
               **others: Any) -> tuple[Tensor, Tensor | None]:
    """The gated delta rule (Yang et al., 2024) over whole rows, in float32; arguments as of transformers' function.

    A token's share of the state is its value less what the state, decayed, says of its key. Within a chunk these shares
    depend on those before them: a triangular system (section 3.3 of the paper).

    Args:
        query, key: ``[B, S, H, K]``, brought to length one here.
        value: ``[B, S, H, V]``.
        g: ``[B, S, H]`` logarithms of decay.
        beta: ``[B, S, H]`` how much of its share each token writes.
        initial_state: ``[B, H, K, V]``; None: zeros.
        output_final_state: whether the state after the last token comes back.
        others: of transformers' kernels.
    """
    del others
    length = query.shape[1]
    # In float32: the decay of many positions is a product of numbers near one, and bfloat16 keeps 8 bits.
    q, k, v, g, beta = (_chunks(x) for x in (_unit(query), _unit(key), value, g, beta))
    # Logarithms are added, so that a decay over a whole chunk does not underflow.
    decay = g.cumsum(-1)
    # [B, H, N, C, C]: what of an earlier token's share is left at a later one; the upper half must not overflow.
    left = (decay[..., :, None] - decay[..., None, :]).tril().exp().tril()
    written = k * beta[..., None]
    wanted = torch.cat([v * beta[..., None], written * decay.exp()[..., None]], -1)
    solved = torch.linalg.solve_triangular(((written @ k.mT) * left).tril(-1), wanted, upper=False, unitriangular=True)
    # Each token's share as if the state before the chunk were zero, and what that state takes off it.
    share, known = solved.split([v.shape[-1], k.shape[-1]], -1)
    q = q * q.shape[-1] ** -0.5
    inside, before = (q @ k.mT) * left, q * decay.exp()[..., None]
    end = decay[..., -1:]
    kept = (k * (end - decay).exp()[..., None]).mT
    state = q.new_zeros((*q.shape[:2], k.shape[-1], v.shape[-1])) if initial_state is None else initial_state.float()
    out = []
    for i in range(q.shape[2]):
        new = share[:, :, i] - known[:, :, i] @ state
        out.append(before[:, :, i] @ state + inside[:, :, i] @ new)
        # What is left of the old state at the chunk's end, and the shares of the chunk's tokens, decayed until then.
        state = state * end[:, :, i, :, None].exp() + kept[:, :, i] @ new
    rows = torch.stack(out, 2).flatten(2, 3)[:, :, :length]
    return rows.transpose(1, 2).contiguous().to(query.dtype), state if output_final_state else None


def _unit(x: Tensor) -> Tensor:
    # The constant is transformers'; a key of zeros stays zero instead of NaN.
    return x * torch.rsqrt((x * x).sum(-1, keepdim=True) + 1e-6)


def _chunks(x: Tensor) -> Tensor:
    """``[B, H, N, C, ...]`` float32 of ``[B, S, H, ...]``; places after the last token are zero, and write nothing."""
    padding = (0, 0) * (x.ndim - 3) + (0, -x.shape[1] % CHUNK)  # from the last axis on
    return F.pad(x.transpose(1, 2).float(), padding).unflatten(2, (-1, CHUNK))


def has_linear_state(model: PreTrainedModel) -> bool:
    """Whether some layer keeps a state instead of keys and values."""
    return any(kind not in ("full_attention", "sliding_attention", "attention")
               for kind in getattr(model.config, "layer_types", None) or ())


def empty_cache(model: PreTrainedModel) -> DynamicCache:
    """A cache by the kinds of layers; those that slide keep all positions, because our masks count them all."""
    cache = DynamicCache(config=model.config)
    cache.layers = [DynamicLayer() if isinstance(layer, DynamicSlidingWindowLayer) else layer for layer in cache.layers]
    return cache


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
