"""Optimizations for one CPU device, which accelerators do not need: `optimize_for_cpu` (`memory.cpu_optimizations`).

The loss at loss positions only; prefix sharing; micro batches of completions of similar length; generation of two
batches at a time, and of finer prompt lengths; memory that small steps free stays with malloc.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np

from workings.engines.freed_memory import keep_freed_memory
from workings.engines.jax.cpu import loss_positions, prefix_sharing
from workings.engines.jax.cpu.length_bucketing import CompiledPrograms, StepByLength, group_by_length
from workings.engines.jax.cpu.loss_positions import LOSS_POSITIONS, LossPositions
from workings.engines.jax.cpu.prefix_sharing import PrefixSharingArrays
from workings.engines.jax.params_tree import Params
from workings.engines.jax.step import Arrays, ProgramVariant, StepSpec
from workings.engines.length_bucketing import LengthBuckets, rows_at_a_time
from workings.models.batch import Batch
from workings.objectives.base import AnyRowOrder


@dataclass(frozen=True)
class CpuVariant(ProgramVariant):
    """Programs with these optimizations."""

    any_row_order: bool
    """Whether the objective allows another order of rows: micro batches may then have fewer rows, of similar length."""
    programs: CompiledPrograms = field(default_factory=dict, compare=False, repr=False)
    """Compiled programs that all steps by length share."""
    # XLA runs the small products and the attention of a new token on one core, so a second batch takes the other one.
    # A fixed number, because numbers must not depend on how many cores a machine has.
    generation_batches = 2
    # Most completions end long before the few that are cut off, and a CPU's time for a token goes with the rows.
    last_rows = 8
    # A new token costs what its attention costs, which is worth another program to compile.
    fine_prompt_lengths = True

    def batch_arrays(self, batch: Batch) -> dict[str, np.ndarray]:
        """Loss positions and distinct positions, where the batch has them."""
        positions = {} if batch.loss_positions is None else {LOSS_POSITIONS: batch.loss_positions}
        return positions | prefix_sharing.batch_arrays(batch)

    def micro_batches(self, count: int, rows: int) -> tuple[int, int]:
        """Micro batches of fewer rows, where the objective allows another order of rows."""
        # All rows of the update are regrouped, so their number stays and only the split changes.
        size = rows_at_a_time(count, rows) if self.any_row_order else rows
        return count * rows // size, size

    def group_by_length(self, batch: Batch) -> LengthBuckets | None:
        """Micro batches of similar length, where the objective allows another order of rows."""
        return group_by_length(batch) if self.any_row_order else None

    def step_by_length(self, spec: StepSpec, abstract: Any, longest: Mapping[str, Any]) -> StepByLength | None:
        """The step by length, where the objective allows another order of rows and there are several micro batches."""
        count, _ = self.micro_batches(*longest["tokens"].shape[:2])
        if count == 1 or not self.any_row_order:
            return None
        return StepByLength(spec, abstract, longest, self.programs)

    def supervised(self, spec: StepSpec, params: Params, rows: Arrays) -> tuple[jax.Array, Arrays]:
        """``[B, M, D]`` hidden states and rows at loss positions, or at all positions of a batch without them."""
        length, shared = rows["tokens"].shape[1], PrefixSharingArrays.from_rows(rows)
        loss_at = LossPositions.from_indices(rows[LOSS_POSITIONS], length) if LOSS_POSITIONS in rows else None
        hidden = loss_positions.hidden_states(spec, params, rows, loss_at, shared)
        arrays = {name: x for name, x in rows.items() if name not in (LOSS_POSITIONS, *prefix_sharing.NAMES)}
        return hidden, arrays if loss_at is None else {name: loss_at.select(x) for name, x in arrays.items()}

    def at_positions(self, log_probs: jax.Array, rows: Arrays) -> jax.Array:
        """``[B, S]`` log probabilities, from ``[B, M]`` at loss positions; unchanged for a batch without them."""
        if LOSS_POSITIONS not in rows:
            return log_probs
        return LossPositions.from_indices(rows[LOSS_POSITIONS], rows["tokens"].shape[1]).at_positions(log_probs)

    def on_compiled(self, temporaries: int) -> None:
        """Lets malloc keep freed memory where programs are small (see `keep_freed_memory`)."""
        keep_freed_memory(temporaries)


def optimize_for_cpu(spec: StepSpec) -> StepSpec:
    """The step with all optimizations for one CPU device: equal numbers except for the order of sums."""
    return replace(spec, variant=CpuVariant(any_row_order=isinstance(spec.objective, AnyRowOrder)))
