"""An objective is a function of the log probabilities of supervised tokens; nothing in it knows a framework.

An engine computes log probabilities, asks an objective for its value and takes the derivative of that value in each
log probability by its framework's own means. The derivative, with its sign turned, then stands where the weight of a
token stands in cross entropy: the gradient of any objective is that of a weighted log likelihood.

Shape suffixes: B rows, S positions of a row, K targets of a position.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

Array = Any
"""A NumPy array, a `jax.Array` or a `torch.Tensor`."""


@dataclass(frozen=True, kw_only=True)
class ArrayFunctions:
    """What the frameworks call differently, or keep in different places."""

    exp: Callable[[Array], Array]
    log: Callable[[Array], Array]
    minimum: Callable[[Array, Array], Array]
    clip: Callable[[Array, float, float], Array]
    """Array, least, greatest."""
    log_sigmoid: Callable[[Array], Array]
    """Logarithm of ``1 / (1 + exp(-x))``, without overflow for any x."""
    stop_gradient: Callable[[Array], Array]
    """The same values, of which no derivative is taken."""
    stack: Callable[[Sequence[Array]], Array]
    """Arrays of one shape, side by side along a new last axis."""


@dataclass(frozen=True, kw_only=True)
class Terms:
    """The value of an objective on some rows, as sums, so that micro batches and devices add up exactly."""

    total: Array
    """Scalar: what is minimized, before it is divided by `Batch.divisor`."""
    metrics: Mapping[str, tuple[Array, Array]] = field(default_factory=dict)
    """By name a sum and the count it is divided by: what people watch beside the loss."""


class Objective(Protocol):
    """What an update minimizes. A frozen dataclass, because two equal ones compile to the same program."""

    name: ClassVar[str]

    @property
    def signals(self) -> tuple[str, ...]:
        """Names of the `Batch.signals` that it needs."""
        ...

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of `Terms.metrics`, always the same ones."""
        ...

    def terms(self, array: ArrayFunctions, log_probs_BS: Array, mask_BS: Array, signals: Mapping[str, Array]) -> Terms:
        """Its value on some rows.

        Args:
            array: the framework's functions.
            log_probs_BS: natural logarithm of the probability of each target; 0 where ``mask_BS`` is 0.
            mask_BS: 1.0 at supervised positions, 0.0 elsewhere.
            signals: ``[B, S]`` each, by the names of `signals`.
        """
        ...


@runtime_checkable
class SeveralTargets(Protocol):
    """An objective with K targets a position, such as a teacher's most likely tokens, in place of the token to come."""

    @property
    def target_signals(self) -> tuple[str, ...]:
        """Names of the K signals that hold token ids; a float32 holds every id exactly."""
        ...

    def terms(self, array: ArrayFunctions, log_probs_BSK: Array, mask_BS: Array, signals: Mapping[str, Array]) -> Terms:
        """As `Objective.terms`, of ``[B, S, K]`` log probabilities, one of each target."""
        ...


@runtime_checkable
class AnyRowOrder(Protocol):
    """An objective that adds up rows, each by itself, of lengths that differ much, as those of completions do.

    An engine may compute them in another order and in other micro batches.
    """

    any_row_order: ClassVar[bool]
