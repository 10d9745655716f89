"""Equal completions of an update are computed once, and count as often as they were sampled.

Short completions of one prompt are often the same text. Rows with the same tokens, log probabilities and advantage have
the same gradient, so one of them is computed and its part of the objective is multiplied by their number. Only for a
policy gradient: its value is a sum over rows.

Shape suffixes: A micro batches, B rows, S positions of a row.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

import jax
import numpy as np

from workings.engines.jax.step import StepSpec
from workings.models.batch import Batch
from workings.objectives.base import Array, ArrayFunctions, Terms
from workings.objectives.policy_gradient import PolicyGradient

COPIES = "copies"
"""Signal: the number of equal rows that a row stands for, at each of its positions; 0 for a row that only fills up."""


@dataclass(frozen=True, kw_only=True)
class CountedRows(PolicyGradient):
    """The policy gradient of rows that stand for several equal ones."""

    @property
    def signals(self) -> tuple[str, ...]:
        """Those of the policy gradient, and the number of rows."""
        return (*super().signals, COPIES)

    def terms(self, array: ArrayFunctions, log_probs_BS: Array, mask_BS: Array, signals: Mapping[str, Array]) -> Terms:
        """`PolicyGradient.terms` of all rows, each as often as it is counted."""
        rest = {name: x for name, x in signals.items() if name != COPIES}
        copies_B = signals[COPIES][:, 0]

        def of_one_row(log_probs_S: Array, mask_S: Array, rest_S: dict[str, Array]
                       ) -> tuple[Array, dict[str, tuple[Array, Array]]]:
            terms = super(CountedRows, self).terms(array, log_probs_S[None], mask_S[None],
                                                   {name: x[None] for name, x in rest_S.items()})
            return terms.total, dict(terms.metrics)

        total_B, metrics = jax.vmap(of_one_row)(log_probs_BS, mask_BS, rest)
        return Terms(total=(total_B * copies_B).sum(),
                     metrics={name: ((sum_B * copies_B).sum(), (count_B * copies_B).sum())
                              for name, (sum_B, count_B) in metrics.items()})


def count_rows(spec: StepSpec) -> StepSpec:
    """The step whose objective reads `COPIES`; the same step if its objective is no policy gradient."""
    objective = spec.objective
    if not isinstance(objective, PolicyGradient):
        return spec
    settings = {each.name: getattr(objective, each.name) for each in fields(objective)}
    return replace(spec, objective=CountedRows(**settings))


def distinct_rows(batch: Batch, size: int) -> tuple[Batch, np.ndarray]:
    """One of each kind of equal rows, in micro batches of ``size`` rows.

    Returns:
        Batch ``[A', size, S]`` with the signal `COPIES`; ``[A B]``: for each row of the batch, its number there.
    """
    length = batch.tokens.shape[-1]
    arrays = {name: x.reshape(-1, length) for name, x in batch.arrays.items()}
    numbers: dict[bytes, int] = {}
    index = np.array([numbers.setdefault(b"".join(x[row].tobytes() for x in arrays.values()), len(numbers))
                      for row in range(batch.shape.all_rows)])
    first = np.unique(index, return_index=True)[1]
    # Programs have a fixed number of rows. The rows that fill up the last micro batch repeat a real one, because the
    # loss of an empty row need not be finite; they count 0 times.
    first = np.concatenate([first, np.repeat(first[-1:], -len(first) % size)])
    copies = np.bincount(index, minlength=len(first)).astype(np.float32)
    of_rows = {name: x[first].reshape(-1, size, length) for name, x in arrays.items()}
    of_rows[COPIES] = np.broadcast_to(copies[:, None], (len(first), length)).reshape(-1, size, length)
    return Batch.of(of_rows, divided_by=batch.divisor), index
