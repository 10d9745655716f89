"""Interface of objectives: functions of the log probabilities of supervised tokens, for any framework.

Engines need no other derivative than that of cross entropy: the gradient of an objective is the gradient of a weighted
cross entropy, where a token's weight is the negative derivative of the objective by the token's log probability.

Shape suffixes: B rows, S positions of a row, K targets of a position, P pairs of rows.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

Array = Any
"""A NumPy array, a `jax.Array` or a `torch.Tensor`."""


@dataclass(frozen=True, kw_only=True)
class ArrayFunctions:
    """Functions whose names differ between the frameworks."""

    exp: Callable[[Array], Array]
    expm1: Callable[[Array], Array]
    """``exp(x) - 1``, exact near 0."""
    log: Callable[[Array], Array]
    minimum: Callable[[Array, Array], Array]
    clip: Callable[[Array, float, float], Array]
    """Arguments: array, lower limit, upper limit."""
    log_sigmoid: Callable[[Array], Array]
    """Logarithm of ``1 / (1 + exp(-x))``, without overflow for any x."""
    stop_gradient: Callable[[Array], Array]
    """The same values, as constants of the gradient."""
    stack: Callable[[Sequence[Array]], Array]
    """Arrays of one shape, stacked along a new last axis."""


@dataclass(frozen=True, kw_only=True)
class Terms:
    """Value of an objective for some rows, as sums that can be added up over micro batches and devices."""

    total: Array
    """The scalar to minimize, before it is divided by `Batch.divisor`."""
    metrics: Mapping[str, tuple[Array, Array]] = field(default_factory=dict)
    """Metrics by name: a sum, and the count that it is divided by."""


class Objective(Protocol):
    """The function that an update minimizes. A frozen dataclass: equal objectives compile to the same program."""

    name: ClassVar[str]

    @property
    def signals(self) -> tuple[str, ...]:
        """Names of the `Batch.signals` that the objective reads."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of `Terms.metrics`."""

    def terms(self, array: ArrayFunctions, log_probs_BS: Array, mask_BS: Array, signals: Mapping[str, Array]) -> Terms:
        """Value of the objective for some rows.

        ``mask_BS`` is 1.0 at supervised positions and else 0.0; ``log_probs_BS``: natural log probabilities of the
        targets, 0 where the mask is 0; ``signals``: ``[B, S]`` each, by the names of `signals`.
        """


@runtime_checkable
class SeveralTargets(Protocol):
    """An objective with K targets per position, such as a teacher's most likely tokens, instead of the next token."""

    @property
    def target_signals(self) -> tuple[str, ...]:
        """Names of the K signals with token ids, which float32 represents exactly."""

    def terms(self, array: ArrayFunctions, log_probs_BSK: Array, mask_BS: Array, signals: Mapping[str, Array]) -> Terms:
        """`Objective.terms` with ``[B, S, K]`` log probabilities, one for each target."""


class OfCompletions:
    """Base of objectives whose neighboring rows may have the same prompt; an engine may compute equal prefixes once."""

    rows_may_move: ClassVar[bool] = False
    """Whether rows are independent, so that an engine may change their order and their micro batches."""


def row_pairs(mask_BS: Array, *values_BS: Array) -> tuple[Array, ...]:
    """Sums over the supervised positions of rows, by pairs: rows 2i and 2i + 1 are pair i.

    Returns ``[P]`` 1.0 for a pair and 0.0 for padding (a row has no supervised position); ``[P, 2]`` supervised tokens
    of both rows, at least 1; and ``[P, 2]`` sums of each of ``values_BS``.
    """
    tokens_P2, *sums_P2 = ((x * mask_BS).sum(-1).reshape(-1, 2) for x in (mask_BS, *values_BS))
    # At least one token: a division by 0 would give NaN.
    return (tokens_P2 > 0).all(-1) * 1.0, tokens_P2 + (tokens_P2 == 0), *sums_P2


def pair_terms(loss_P: Array, is_pair_P: Array, values_P: Mapping[str, Array]) -> Terms:
    """Sum of the losses of pairs, and metrics with these values, without padding."""
    count = is_pair_P.sum()
    return Terms(total=(loss_P * is_pair_P).sum(),
                 metrics={name: ((x_P * is_pair_P).sum(), count) for name, x_P in values_P.items()})


@dataclass(frozen=True, kw_only=True)
class CrossEntropy:
    """Negative log likelihood in nats, for imitation. Engines compute it and its gradient together."""

    name: ClassVar[str] = "cross_entropy"
    signals: ClassVar[tuple[str, ...]] = ()
    metrics: ClassVar[tuple[str, ...]] = ()

    def terms(self, array: ArrayFunctions, log_probs_BS: Array, mask_BS: Array, signals: Mapping[str, Array]) -> Terms:
        """Value of the objective for some rows; see `Objective.terms`."""
        return Terms(total=-(log_probs_BS * mask_BS).sum())


CROSS_ENTROPY = CrossEntropy()
