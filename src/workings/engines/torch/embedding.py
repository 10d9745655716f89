"""Embeddings that cast what they look up: tied ones, whose gradient exists once, and a frozen table on the host.

A matrix that is both embedding and head gets two gradients: the head's, whole, at the start of backward, and the
embedding's at its end. Autograd would make the second one whole as well, zeros but for the rows of this batch's tokens,
before it adds the two: for a vocabulary of 256,000 the largest temporary of the step. Here the loss leaves the head's
gradient to the embedding, which adds its rows to it.

Shape suffixes: T tokens of the batch, D width, V vocabulary.
"""

from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._subclasses.fake_tensor import unset_fake_temporarily


class SharedGradient:
    """The head's gradient, passed from the loss to the embedding, whose backward always comes later."""

    def __init__(self) -> None:
        self._left: Tensor | None = None

    def leave(self, gradient: Tensor) -> None:
        """Hand over the head's gradient ``[V, D]``."""
        self._left = gradient

    def take(self, like: Tensor) -> Tensor:
        """The gradient that was left; zeros without a loss."""
        gradient, self._left = self._left, None
        return torch.zeros_like(like) if gradient is None else gradient


class StoredEmbedding(nn.Embedding):
    """Lookup in the format of storage, cast to that of computation; Gemma's rows are multiplied after the cast."""

    compute: torch.dtype
    shared: SharedGradient | None = None
    """Of a matrix that is the head, too."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - the name of the class above
        """``[..., D]``."""
        rows = F.embedding(input, self.weight) if self.shared is None else _Lookup.apply(
            self.weight, input, self.shared)
        return _times_scale(self, rows.to(self.compute))


def _times_scale(embedding: nn.Module, rows: Tensor) -> Tensor:
    """Rows times the number that Gemma's embeddings have, which is rounded to the format of the rows first."""
    scale: float | None = getattr(embedding, "scalar_embed_scale", None)
    return rows if scale is None else rows * _rounded(scale, rows.dtype)


@cache
def _rounded(number: float, dtype: torch.dtype) -> float:
    """A number as a format stores it. A tensor of it would have to travel to the card, for which the host waits."""
    with unset_fake_temporarily():
        return torch.tensor(number, dtype=dtype).item()


class _Lookup(torch.autograd.Function):
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
    """Add row t to ``gradient[tokens[t]]`` in place, in an order that is the same in every run.

    Rows of the same token are summed first, in the order of the batch, as PyTorch's embedding does; every token is then
    added once.
    """
    # Stable: rows of one token stay in the batch's order, and with it the order of their sum.
    order = torch.argsort(tokens, stable=True)
    sorted_tokens = tokens[order]
    new = torch.ones_like(sorted_tokens)
    new[1:] = (sorted_tokens[1:] != sorted_tokens[:-1]).to(new.dtype)
    index = torch.cumsum(new, 0) - 1
    # As many entries as tokens: the host would have to wait for the device to learn how many tokens differ.
    summed = torch.ops.aten.embedding_dense_backward(rows_TD[order], index, tokens.shape[0], -1, False)
    # Places beyond the number of different tokens hold zeros, which are added to row 0.
    target = torch.zeros_like(tokens).scatter_(0, index, sorted_tokens)
    return gradient_VD.index_add_(0, target, summed)


class FixedTable(nn.Embedding):
    """A frozen table that stays where its memory is, e.g. on the host: rows alone travel to the tokens' device."""

    compute: torch.dtype

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - the name of the class above
        """``[..., D]`` on the device of the tokens, multiplied after the cast."""
        # For a table on the host, the host has to read the tokens: it waits for the card before the first layer.
        tokens = input.reshape(-1).to(self.weight.device)
        if input.is_cuda and not self.weight.is_cuda:
            # A copy from pinned memory does not stop the host, and needs no second copy on the way.
            rows = torch.empty((tokens.shape[0], self.embedding_dim), dtype=self.weight.dtype, pin_memory=True)
            torch.index_select(self.weight, 0, tokens, out=rows)
        else:
            rows = F.embedding(tokens, self.weight)
        here = rows.to(input.device, non_blocking=True).to(self.compute).view(*input.shape, self.embedding_dim)
        return _times_scale(self, here)

    def _apply(self, fn: Any, recurse: bool = True) -> "FixedTable":
        """Moving the rest of the model leaves this where it is."""
        del fn, recurse
        return self


def share_gradient(model: Any, compute: torch.dtype) -> None:
    """Let the embedding of a transformers model share one gradient with its head, where they are one trained matrix."""
    embedding, head = model.get_input_embeddings(), model.get_output_embeddings()
    if embedding.weight is head.weight and embedding.weight.requires_grad:
        # The class is exchanged, not the module: names, weight and tie stay.
        embedding.__class__ = StoredEmbedding
        embedding.compute, embedding.shared = compute, SharedGradient()


def shared_gradient(model: Any) -> SharedGradient | None:
    """The `SharedGradient` of a model's tied embedding, for the loss."""
    return getattr(model.get_input_embeddings(), "shared", None)
