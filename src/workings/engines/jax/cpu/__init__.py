"""What one CPU device gains and accelerators do not, behind `optimize_for_cpu` (`memory.cpu_optimizations`).

Unstacked layers; the last layer and the loss at loss positions only; what rows begin with computed once where they
begin alike; completions in micro batches of like length; memory that small steps free kept by malloc; prompts in two
batches at a time, of finer lengths. How much they are worth stands in `benchmarks/results/cpu_switches.json`; what each
is, in its module.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np

from workings.engines.jax.cpu import loss_positions, shared_beginnings, unstacked_layers
from workings.engines.jax.cpu.freed_memory import keep_freed_memory
from workings.engines.jax.cpu.like_lengths import Programs, StepByLength, by_length
from workings.engines.jax.cpu.loss_positions import LOSS_POSITIONS, LossPositions
from workings.engines.jax.cpu.shared_beginnings import SharedBeginnings
from workings.engines.jax.cpu.unstacked_layers import UnstackedState
from workings.engines.jax.layers import unroll
from workings.engines.jax.params_tree import Params, stacks
from workings.engines.jax.remat import POLICIES
from workings.engines.jax.step import Arrays, ProgramVariant, State, StepSpec
from workings.engines.like_lengths import LikeLengths, rows_at_a_time
from workings.models.batch import Batch
from workings.objectives.base import AnyRowOrder


@dataclass(frozen=True)
class CpuVariant(ProgramVariant):
    """A step at the loss positions that a batch brings, its layers unstacked where they are written out."""

    unstacked: bool
    """Whether the step takes each layer's tensors as arrays of their own."""
    any_row_order: bool
    """Whether the objective lets rows change places: micro batches may then be fewer rows, and of like length."""
    programs: Programs = field(default_factory=dict, compare=False, repr=False)
    """Of steps by length, which share them."""
    # XLA runs the small products and the attention of a new token on one core, so a second batch takes the other one.
    # A fixed number, because numbers must not depend on how many cores a machine has.
    generation_batches = 2
    # Most completions end long before the few that are cut off, and a CPU's time for a token goes with the rows.
    last_rows = 8
    # A new token costs what its attention costs, which is worth another program to compile.
    fine_prompt_lengths = True

    def batch_arrays(self, batch: Batch) -> dict[str, np.ndarray]:
        """Loss positions and what rows share, where the batch has some."""
        positions = {} if batch.loss_positions is None else {LOSS_POSITIONS: batch.loss_positions}
        return positions | shared_beginnings.batch_arrays(batch)

    def micro_batches(self, count: int, rows: int) -> tuple[int, int]:
        """Of few rows, where the objective allows it."""
        size = rows_at_a_time(count, rows) if self.any_row_order else rows
        return count * rows // size, size

    def like_lengths(self, batch: Batch) -> LikeLengths | None:
        """Where the objective allows it."""
        return by_length(batch) if self.any_row_order else None

    def step_by_length(self, spec: StepSpec, abstract: Any, longest: Mapping[str, Any]) -> StepByLength | None:
        """Where the objective allows it, and there are several micro batches to be unlike."""
        count, _ = self.micro_batches(*longest["tokens"].shape[:2])
        if count == 1 or not self.any_row_order:
            return None
        state, _ = self.abstract(abstract, None, None)
        return StepByLength(spec, state, longest, self.programs)

    def supervised(self, spec: StepSpec, params: Params, rows: Arrays) -> tuple[jax.Array, Arrays]:
        """``[B, M, D]`` and rows at loss positions, or all of them where the batch brings none."""
        length, shared = rows["tokens"].shape[1], SharedBeginnings.of(rows)
        at = LossPositions.of(rows[LOSS_POSITIONS], length) if LOSS_POSITIONS in rows else None
        if self.unstacked:
            hidden = unstacked_layers.hidden_states(spec, params, rows, at, shared)
        else:
            hidden = loss_positions.hidden_states(spec, params, rows, at, shared)
        given = {name: x for name, x in rows.items() if name not in (LOSS_POSITIONS, *shared_beginnings.NAMES)}
        return hidden, given if at is None else {name: at.of_rows(x) for name, x in given.items()}

    def at_positions(self, log_probs: jax.Array, rows: Arrays) -> jax.Array:
        """``[B, S]`` of log probabilities ``[B, M]`` at loss positions, or as they are where the batch brings none."""
        if LOSS_POSITIONS not in rows:
            return log_probs
        return LossPositions.of(rows[LOSS_POSITIONS], rows["tokens"].shape[1]).at_positions(log_probs)

    def abstract(self, state: Any, shardings: Any, everywhere: Any) -> tuple[Any, Any]:
        """Unstacked, on the one device."""
        if not self.unstacked:
            return state, shardings
        # One sharding for a whole tree: jit takes a prefix of it.
        return jax.eval_shape(unstacked_layers.unstack_state, state), everywhere

    def before(self, state: State, everywhere: Any) -> Any:
        """See `UnstackedState.of`."""
        return UnstackedState.of(state, everywhere).arrays if self.unstacked else state

    def compiled(self, temporaries: int) -> None:
        """See `keep_freed_memory`."""
        keep_freed_memory(temporaries)

    def after(self, arrays: Any) -> State:
        """A state that is stacked when somebody asks for its arrays."""
        return UnstackedState(arrays) if self.unstacked else arrays


def optimize_for_cpu(spec: StepSpec) -> StepSpec:
    """The same step as one CPU device computes it faster: equal numbers but for the order of sums."""
    # Muon, fewer bits and the draws of stochastic rounding go by the stack; remat is a policy of the scan over it.
    # Layers that are not alike have several stacks.
    by_stack = (spec.optimizer.needs_layer_stack or spec.rounding == "stochastic" or len(stacks(spec.shape)) > 1
                or (spec.lora is not None and spec.lora.stored is not None))
    written_out = unroll(spec.shape) == spec.shape.layers and spec.remat is POLICIES["none"]
    return replace(spec, variant=CpuVariant(unstacked=written_out and not by_stack,
                                            any_row_order=isinstance(spec.objective, AnyRowOrder)))
