"""An update as several programs: micro batches of like length, each at its own, and what follows from their sums.

A compiled program has fixed shapes, so one for the whole update has all rows as long as the longest. Here each length
has a program, which adds the gradients of one micro batch to those so far. Lengths are few (`padded_length`): a program
is compiled when the first micro batch of its length comes.
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
from workings.engines.jax.step import Arrays, StepSpec, gradients, updated
from workings.engines.like_lengths import LikeLengths, rows_at_a_time
from workings.models.batch import Batch

Programs = dict[str, Any]
"""What is compiled, by what it is for and its sizes."""


def by_length(batch: Batch) -> LikeLengths:
    """The micro batches of a batch, padded to few lengths."""
    return LikeLengths.of(batch, partial(padded_length, fine=True))


class StepByLength:
    """Stands where a compiled step stands: called with the same arguments, and its memory is known beforehand."""

    def __init__(self, spec: StepSpec, state: Any, longest: Mapping[str, Any], programs: Programs) -> None:
        """Compile what the longest micro batch needs, and the update.

        Args:
            spec: what the step is made of.
            state: shapes, in the form that the step takes.
            longest: shapes of the batch as the step takes it, ``[A, B, ...]``.
            programs: compiled so far; those of this step are added to it.
        """
        self._spec, self._state, self._programs = spec, state, programs
        trained = unflatten_params(spec.trained(state["params"]))
        self._sums = jax.eval_shape(lambda: ((jnp.zeros(()), jnp.zeros((len(spec.objective.metrics), 2))),
                                             jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), trained)))
        first, rows = longest["tokens"].shape[:2]
        size = rows_at_a_time(first, rows)
        self._longest = self._add({name: jax.ShapeDtypeStruct((1, size, *x.shape[2:]), x.dtype)
                                   for name, x in longest.items()})
        self._update, self._zeros = self._compiled_update()

    def __call__(self, state: Any, arrays: Arrays, divisor: np.float32,
                 learning_rate: np.float32) -> tuple[Any, jax.Array, np.ndarray | None]:
        """As the functions of `make_step`."""
        rows = {name: np.asarray(x) for name, x in arrays.items() if name != LOSS_POSITIONS}
        batch = Batch.of(rows, divided_by=float(divisor))
        if LOSS_POSITIONS in arrays:
            batch = batch.with_loss_positions(arrays[LOSS_POSITIONS].shape[-1])
        parts, sums, said = by_length(batch), self._zeros(), []
        for part in parts.batches:
            given = {name: part.arrays[name] for name in rows} | self._spec.variant.batch_arrays(part)
            sums, log_probs = self._add(given)(state["params"], sums, given, divisor)
            said.append(log_probs)
        after, numbers = self._update(state, sums, learning_rate)
        return after, numbers, None if said[0] is None else parts.together([np.asarray(x) for x in said])

    def memory_analysis(self) -> Any:
        """The compiler's count of the program that needs most, everything that lies beside it among its arguments."""
        def bytes_of(tree: Any) -> int:
            return sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(tree))

        def count(program: Any, beside: int) -> SimpleNamespace:
            analysis = program.memory_analysis()
            names = [name for name in dir(analysis) if name.endswith("_in_bytes")]
            return SimpleNamespace(**{name: getattr(analysis, name) + beside * name.startswith(("argument", "peak"))
                                      for name in names})

        both = count(self._longest, bytes_of(self._state["moments"])), count(self._update, 0)
        return max(both, key=lambda x: x.argument_size_in_bytes + x.output_size_in_bytes + x.temp_size_in_bytes
                   - x.alias_size_in_bytes)

    def _add(self, rows: Mapping[str, Any]) -> Any:
        """The program that adds the gradients of a micro batch of these sizes to the sums so far."""
        name = f"add {[x.shape for x in rows.values()]}"
        if name not in self._programs:
            def add(params: Params, sums: Any, rows: Arrays, divisor: jax.Array) -> tuple[Any, jax.Array | None]:
                *more, log_probs = gradients(self._spec, params, rows, divisor)
                return jax.tree.map(jnp.add, sums, tuple(more)), log_probs

            shapes = {key: jax.ShapeDtypeStruct(x.shape, x.dtype) for key, x in rows.items()}
            self._compile(name, add, 1, self._state["params"], self._sums, shapes, _NUMBER)
        return self._programs[name]

    def _compiled_update(self) -> tuple[Any, Any]:
        """The update that follows from the sums, and the sums of nothing."""
        if "update" not in self._programs:
            def update(state: Any, sums: Any, learning_rate: jax.Array) -> tuple[Any, jax.Array]:
                reported, gradient = sums
                return updated(self._spec, state, reported, gradient, learning_rate)

            self._compile("update", update, 0, self._state, self._sums, _NUMBER)
            self._compile("zeros", lambda: jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), self._sums), ())
        return self._programs["update"], self._programs["zeros"]

    def _compile(self, name: str, function: Any, donated: Any, *shapes: Any) -> None:
        place = self._spec.layout.everywhere()
        jitted = jax.jit(function, donate_argnums=donated, in_shardings=place, out_shardings=place)
        self._programs[name] = jitted.lower(*shapes).compile()


_NUMBER = jax.ShapeDtypeStruct((), jnp.float32)
