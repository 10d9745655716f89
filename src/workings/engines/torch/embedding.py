"""Embeddings that cast the rows they look up.

- `StoredEmbedding`: if the embedding is the head too, both share one gradient. Autograd would make a second matrix
  ``[V, D]`` for the embedding, with zeros except for the batch's tokens, the largest temporary of a step.
- `FixedTable`: a frozen table that may stay in the host's memory.

Shape suffixes: T tokens of the batch, D width, V vocabulary.
"""

from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._subclasses.fake_tensor import unset_fake_temporarily


class SharedGradient:
    """Passes the head's gradient from the loss to the embedding, whose backward comes later."""

    def __init__(self) -> None:
        self._gradient: Tensor | None = None

    def leave(self, gradient: Tensor) -> None:
        """Hand over the head's gradient ``[V, D]``."""
        self._gradient = gradient

    def take(self, like: Tensor) -> Tensor:
        """The head's gradient, which is then no longer held here; zeros if there was no loss."""
        gradient, self._gradient = self._gradient, None
        return torch.zeros_like(like) if gradient is None else gradient


class StoredEmbedding(nn.Embedding):
    """An embedding whose rows are cast to ``compute``."""

    compute: torch.dtype
    shared: SharedGradient | None = None
    """For a matrix that is the head too."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - the name of the class above
        """``[..., D]``."""
        if self.shared is None:
            rows = F.embedding(input, self.weight)
        else:
            rows = _SharedLookup.apply(self.weight, input, self.shared)
        return _times_scale(self, rows.to(self.compute))


def _times_scale(embedding: nn.Module, rows: Tensor) -> Tensor:
    """Rows times the scale of Gemma's embeddings, which is rounded to the format of the rows first."""
    scale: float | None = getattr(embedding, "scalar_embed_scale", None)
    return rows if scale is None else rows * _rounded(scale, rows.dtype)


@cache
def _rounded(number: float, dtype: torch.dtype) -> float:
    """A number as a format stores it, on the host: a tensor would have to be copied to the GPU."""
    with unset_fake_temporarily():
        return torch.tensor(number, dtype=dtype).item()


class _SharedLookup(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, tokens: Tensor, shared: SharedGradient) -> Tensor:
        ctx.save_for_backward(weight, tokens)
        ctx.shared = shared
        return F.embedding(tokens, weight)

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor | None, None, None]:
        weight, tokens = ctx.saved_tensors
        gradient = ctx.shared.take(weight)
        return add_rows(gradient, tokens.reshape(-1), outer[0].reshape(-1, weight.shape[1])), None, None


def add_rows(gradient_VD: Tensor, tokens: Tensor, rows_TD: Tensor) -> Tensor:
    """Add row t to ``gradient[tokens[t]]`` in place. Rows of one token are summed first, in the order of the batch.

    For tokens 7 3 7 and rows a b c: ``sorted_tokens`` 3 7 7, ``index`` 0 1 1, ``sums`` b a+c 0, ``target`` 3 7 0.
    """
    order = torch.argsort(tokens, stable=True)
    sorted_tokens = tokens[order]
    is_new = torch.ones_like(sorted_tokens)
    is_new[1:] = (sorted_tokens[1:] != sorted_tokens[:-1]).to(is_new.dtype)
    index = torch.cumsum(is_new, 0) - 1
    # As many sums as rows: to count the different tokens the host would have to wait for the device.
    sums = torch.ops.aten.embedding_dense_backward(rows_TD[order], index, tokens.shape[0], -1, False)
    # The sums beyond the different tokens are zeros, and are added to row 0.
    target = torch.zeros_like(tokens).scatter_(0, index, sorted_tokens)
    return gradient_VD.index_add_(0, target, sums)


class FixedTable(nn.Embedding):
    """A frozen table that stays where it is, such as on the host. Only rows travel to the tokens' device."""

    compute: torch.dtype

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - the name of the class above
        """``[..., D]`` on the device of the tokens."""
        # The host waits for the tokens of a GPU, once before the first layer.
        tokens = input.reshape(-1).to(self.weight.device)
        if input.is_cuda and not self.weight.is_cuda:
            # The host does not wait for a copy from pinned memory.
            rows = torch.empty((tokens.shape[0], self.embedding_dim), dtype=self.weight.dtype, pin_memory=True)
            torch.index_select(self.weight, 0, tokens, out=rows)
        else:
            rows = F.embedding(tokens, self.weight)
        here = rows.to(input.device, non_blocking=True).to(self.compute).view(*input.shape, self.embedding_dim)
        return _times_scale(self, here)

    def _apply(self, fn: Any, recurse: bool = True) -> "FixedTable":
        """Leave the table where it is when the model is moved."""
        return self


def share_gradient(model: Any, compute: torch.dtype) -> None:
    """Let a model's embedding share one gradient with its head, if both are one trained matrix."""
    embedding, head = model.get_input_embeddings(), model.get_output_embeddings()
    if embedding.weight is head.weight and embedding.weight.requires_grad:
        embedding.__class__ = StoredEmbedding
        embedding.compute, embedding.shared = compute, SharedGradient()


def shared_gradient(model: Any) -> SharedGradient | None:
    """The `SharedGradient` of a model's tied embedding, for the loss."""
    return getattr(model.get_input_embeddings(), "shared", None)
