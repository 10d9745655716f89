"""An objective's value on one micro batch, and token weights: the weighted log likelihood has the same gradient.

    objective(log_probs)  ->  weights = -d objective / d log_probs  ->  loss = sum(weights * -log_probs)

Shape suffixes: B rows, S positions, N supervised positions, D width, V vocabulary, K metrics or targets of a position.
"""

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn

from workings.engines.torch.loss import linear_log_probs
from workings.objectives.base import ArrayFunctions, CrossEntropy, Objective, SeveralTargets

if TYPE_CHECKING:
    from workings.engines.torch.step import Rows

ARRAY = ArrayFunctions(exp=torch.exp, expm1=torch.expm1, log=torch.log, minimum=torch.minimum, clip=torch.clamp,
                       log_sigmoid=nn.functional.logsigmoid, stop_gradient=Tensor.detach,
                       stack=partial(torch.stack, dim=-1))


def targets_of(objective: Objective, rows: "Rows") -> Tensor:
    """``[N]`` target of each supervised position, or ``[N, K]`` for an objective with several targets."""
    if not isinstance(objective, SeveralTargets):
        return rows.targets
    return torch.stack([rows.signals[name] for name in objective.target_signals], -1).long()


class ObjectiveResult(NamedTuple):
    """An objective's value and metrics for some rows, and log probabilities of their targets."""

    value: Tensor
    metrics: Tensor
    """``[K, 2]`` sums and counts."""
    log_probs: list[Tensor]
    """``[N]`` for each micro batch; empty for cross entropy and for several targets."""


def token_weights(objective: Objective, hidden_ND: Tensor, head_VD: Tensor, rows: "Rows", *, chunk: int,
                  soft_cap: float, kernel: bool) -> tuple[Tensor, ObjectiveResult]:
    """``[N]`` or ``[N, K]`` token weights of a micro batch, and its result. Cross entropy's value is left at 0.

    ``hidden_ND`` are normed hidden states; other arguments are as in `linear_cross_entropy`.
    """
    ones = torch.ones(rows.targets.shape, device=hidden_ND.device)
    if isinstance(objective, CrossEntropy):
        return ones, ObjectiveResult(ones.new_zeros(()), ones.new_zeros((0, 2)), [])
    # Without gradients, because an objective may need a row's log probabilities before it knows any token's weight.
    log_probs = linear_log_probs(hidden_ND.detach(), head_VD.detach(), targets_of(objective, rows), chunk=chunk,
                                 soft_cap=soft_cap, kernel=kernel)

    def spread(x_N: Tensor) -> Tensor:
        """``[B, S]`` or ``[B, S, K]``, zero at positions that are not supervised."""
        zeros = x_N.new_zeros((rows.tokens.numel(), *x_N.shape[1:]))
        return zeros.index_copy(0, rows.index, x_N).view(*rows.tokens.shape, *x_N.shape[1:])

    # The graph begins at the log probabilities, so this derivative does not go through the model.
    with torch.enable_grad():
        leaf = spread(log_probs).requires_grad_()
        terms = objective.terms(ARRAY, leaf, spread(ones), {name: spread(x) for name, x in rows.signals.items()})
        [derivative] = torch.autograd.grad(terms.total, leaf)
    pairs = [torch.stack([x.detach() for x in terms.metrics[name]]) for name in objective.metrics]
    metrics = torch.stack(pairs) if pairs else ones.new_zeros((0, 2))
    weights = -derivative.reshape(-1, *log_probs.shape[1:]).index_select(0, rows.index)
    return weights, ObjectiveResult(terms.total.detach(), metrics, [log_probs] if log_probs.ndim == 1 else [])
