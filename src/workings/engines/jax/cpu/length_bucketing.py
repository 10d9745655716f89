"""A step as several programs: one for each length of a micro batch, and one for the update.

A compiled program has fixed shapes, so a single program for the whole step would pad all rows to the longest. Here each
length has a program that adds the gradients of one micro batch to the sums so far. Lengths are few (`padded_length`); a
program is compiled when the first micro batch of its length comes.
"""

from collections.abc import Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from workings.engines.jax.cpu.loss_positions import LOSS_POSITIONS
from workings.engines.jax.generate import padded_length
from workings.engines.jax.params_tree import Params, unflatten_params
from workings.engines.jax.step import Arrays, StepSpec, apply_update, gradients
from workings.engines.length_bucketing import LengthBuckets, rows_at_a_time
from workings.models.batch import Batch

CompiledPrograms = dict[str, Any]
"""Compiled programs, by purpose and sizes."""


def group_by_length(batch: Batch) -> LengthBuckets:
    """The batch in micro batches of similar length, padded to few lengths."""
    return LengthBuckets.from_batch(batch, partial(padded_length, fine=True))


class StepByLength:
    """Has the interface of a compiled step: the same arguments, and the memory that it needs."""

    def __init__(self, spec: StepSpec, state: Any, longest: Mapping[str, Any], programs: CompiledPrograms) -> None:
        """Compiles the program of the longest micro batch, and that of the update.

        Args:
            spec: of the step.
            state: shapes of the step's form of the state.
            longest: shapes of the step's arrays of a batch, ``[A, B, ...]``.
            programs: compiled so far; those of this step are added.
        """
        self._spec, self._state, self._programs = spec, state, programs
        trained = unflatten_params(spec.trained(state["params"]))
        self._sums = jax.eval_shape(lambda: ((jnp.zeros(()), jnp.zeros((len(spec.objective.metrics), 2))),
                                             jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), trained)))
        size = rows_at_a_time(*longest["tokens"].shape[:2])
        # Compiled first: the longest needs the most memory, so a run that does not fit fails before its first step.
        shapes = {name: jax.ShapeDtypeStruct((1, size, *x.shape[2:]), x.dtype) for name, x in longest.items()}
        self._longest = self._add(shapes)
        self._update, self._zeros = self._compiled_update()

    def __call__(self, state: Any, arrays: Arrays, divisor: np.float32,
                 learning_rate: np.float32) -> tuple[Any, jax.Array, np.ndarray | None]:
        """One step; arguments and results as in `make_step`."""
        # Positions of the loss belong to the old micro batches and are found again for the new ones.
        rows = {name: np.asarray(x) for name, x in arrays.items() if name != LOSS_POSITIONS}
        batch = Batch.of(rows, divided_by=float(divisor))
        if LOSS_POSITIONS in arrays:
            batch = batch.with_loss_positions(arrays[LOSS_POSITIONS].shape[-1])
        buckets = group_by_length(batch)
        parts = [part.arrays | self._spec.variant.batch_arrays(part) for part in buckets.batches]
        # All are compiled before the first runs.
        programs = [self._add(part) for part in parts]
        # Zeros are made anew, because each program donates the sums that it is given.
        sums, log_probs = self._zeros(), []
        for program, part in zip(programs, parts, strict=True):
            sums, part_log_probs = program(state["params"], sums, part, divisor)
            log_probs.append(part_log_probs)
        after, numbers = self._update(state, sums, learning_rate)
        if log_probs[0] is None:
            return after, numbers, None
        # The buckets have rows in another order; `merge` brings the log probabilities back to that of the batch.
        return after, numbers, buckets.merge([np.asarray(x) for x in log_probs])

    def memory_analysis(self) -> Any:
        """The compiler's analysis of the program that needs most; all waiting arrays count among its arguments."""
        def analyze(program: Any, waiting_bytes: int) -> SimpleNamespace:
            analysis = program.memory_analysis()
            return SimpleNamespace(**{
                # Arrays that wait are resident while the program runs, so they raise its arguments and its peak.
                name: getattr(analysis, name) + waiting_bytes * name.startswith(("argument", "peak"))
                for name in dir(analysis) if name.endswith("_in_bytes")})

        # Moments wait in memory while gradients are added up.
        analyses = analyze(self._longest, _bytes_of(self._state["moments"])), analyze(self._update, 0)
        return max(analyses, key=lambda x: x.argument_size_in_bytes + x.output_size_in_bytes + x.temp_size_in_bytes
                   - x.alias_size_in_bytes)

    def _add(self, rows: Mapping[str, Any]) -> Any:
        """The program that adds the gradients of a micro batch of these sizes to the sums so far."""
        # The shapes are all that two micro batches of one step differ in: they name the program.
        name = f"add {[x.shape for x in rows.values()]}"
        if name not in self._programs:
            def add(params: Params, sums: Any, rows: Arrays, divisor: jax.Array) -> tuple[Any, jax.Array | None]:
                *part_sums, log_probs = gradients(self._spec, params, rows, divisor)
                return jax.tree.map(jnp.add, sums, tuple(part_sums)), log_probs

            shapes = {key: jax.ShapeDtypeStruct(x.shape, x.dtype) for key, x in rows.items()}
            # The sums are donated: two sets of gradients at a time would double the memory.
            self._compile(name, add, 1, self._state["params"], self._sums, shapes, _NUMBER)
        return self._programs[name]

    def _compiled_update(self) -> tuple[Any, Any]:
        """The programs of the update from the sums, and of sums that are zero."""
        if "update" not in self._programs:
            def update(state: Any, sums: Any, learning_rate: jax.Array) -> tuple[Any, jax.Array]:
                loss_and_metrics, gradient = sums
                return apply_update(self._spec, state, loss_and_metrics, gradient, learning_rate)

            # The state is donated, as in the step of one program.
            self._compile("update", update, 0, self._state, self._sums, _NUMBER)
            self._compile("zeros", lambda: jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), self._sums), ())
        return self._programs["update"], self._programs["zeros"]

    def _compile(self, name: str, function: Any, donated: Any, *shapes: Any) -> None:
        # Several programs are used on one CPU device only, so nothing is split.
        sharding = self._spec.layout.replicated()
        jitted = jax.jit(function, donate_argnums=donated, in_shardings=sharding, out_shardings=sharding)
        self._programs[name] = jitted.lower(*shapes).compile()


def _bytes_of(tree: Any) -> int:
    return sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(tree))


_NUMBER = jax.ShapeDtypeStruct((), jnp.float32)
