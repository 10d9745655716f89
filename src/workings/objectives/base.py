"""Interface of objectives: functions of the log probabilities of supervised tokens, independent of the framework.

The negative derivative of an objective in a token's log probability is the token's weight in cross entropy: the
gradient of any objective is that of a weighted log likelihood.

Shape suffixes: B rows, S positions of a row, K targets of a position.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

Array = Any
"""A NumPy array, a `jax.Array` or a `torch.Tensor`."""


@dataclass(frozen=True, kw_only=True)
class ArrayFunctions:
    """Functions that have different names in the frameworks."""

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
    """The same values without derivative."""
    stack: Callable[[Sequence[Array]], Array]
    """Arrays of one shape, stacked along a new last axis."""


@dataclass(frozen=True, kw_only=True)
class Terms:
    """Value of an objective for some rows, as sums, so that micro batches and devices add up exactly."""

    total: Array
    """Scalar that is minimized, before it is divided by `Batch.divisor`."""
    metrics: Mapping[str, tuple[Array, Array]] = field(default_factory=dict)
    """Metrics for humans: a sum and the count that it is divided by, by name."""


class Objective(Protocol):
    """The function that an update minimizes. A frozen dataclass: equal objectives compile to the same program."""

    name: ClassVar[str]

    @property
    def signals(self) -> tuple[str, ...]:
        """Names of the `Batch.signals` that the objective reads."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of `Terms.metrics`, which do not depend on the batch."""

    def terms(self, array: ArrayFunctions, log_probs_BS: Array, mask_BS: Array, signals: Mapping[str, Array]) -> Terms:
        """Value of the objective for some rows.

        Log probabilities of the targets are natural logarithms, 0 where ``mask_BS`` is 0; it is 1.0 at supervised
        positions. ``signals``: ``[B, S]`` each, by the names of `signals`.
        """


@runtime_checkable
class SeveralTargets(Protocol):
    """An objective with K targets a position, such as a teacher's most likely tokens, instead of the next token."""

    @property
    def target_signals(self) -> tuple[str, ...]:
        """Names of the K signals with token ids; float32 represents every id exactly."""

    def terms(self, array: ArrayFunctions, log_probs_BSK: Array, mask_BS: Array, signals: Mapping[str, Array]) -> Terms:
        """`Objective.terms` with ``[B, S, K]`` log probabilities, one for each target."""


class OfCompletions:
    """Base of objectives whose neighbouring rows may have one prompt: an engine may compute equal prefixes once."""

    rows_may_move: ClassVar[bool] = False
    """Whether rows are independent, and an engine may compute them in another order and other micro batches."""


def row_pairs(mask_BS: Array, *values_BS: Array) -> tuple[Array, ...]:
    """Sums over the supervised positions of rows, for neighbors that belong together: P pairs.

    Returns ``[P]`` 1.0 for a pair and 0.0 for padding, which has a row without a supervised position; ``[P, 2]``
    supervised tokens of both rows, at least 1; and ``[P, 2]`` sums of each of ``values_BS``.
    """
    tokens_P2, *sums_P2 = ((x * mask_BS).sum(-1).reshape(-1, 2) for x in (mask_BS, *values_BS))
    # Padding counts as one token: 0 / 0 would be NaN, also after multiplication by 0.
    return (tokens_P2 > 0).all(-1) * 1.0, tokens_P2 + (tokens_P2 == 0), *sums_P2


def pair_terms(loss_P: Array, is_pair_P: Array, values_P: Mapping[str, Array]) -> Terms:
    """Sum of the losses of pairs, and metrics with these values; pairs of padding count nothing."""
    count = is_pair_P.sum()
    return Terms(total=(loss_P * is_pair_P).sum(),
                 metrics={name: ((x_P * is_pair_P).sum(), count) for name, x_P in values_P.items()})


@dataclass(frozen=True, kw_only=True)
class CrossEntropy:
    """Negative log likelihood in nats: imitation. Engines compute it and its gradient in one walk over the logits."""

    name: ClassVar[str] = "cross_entropy"
    signals: ClassVar[tuple[str, ...]] = ()
    metrics: ClassVar[tuple[str, ...]] = ()

    def terms(self, array: ArrayFunctions, log_probs_BS: Array, mask_BS: Array, signals: Mapping[str, Array]) -> Terms:
        """Value of the objective for some rows; see `Objective.terms`."""
        del array, signals
        return Terms(total=-(log_probs_BS * mask_BS).sum())


CROSS_ENTROPY = CrossEntropy()
