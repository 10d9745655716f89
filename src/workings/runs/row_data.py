"""What a run learns from that is there before it begins: rows of traces, or of preference pairs."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any

from workings.config.recipe import Recipe
from workings.data.batches import Batches
from workings.data.pair_rows import PairRows, build_pair_rows
from workings.data.reference import LogProbs, from_lines, to_lines
from workings.data.row_cache import MIN_CACHED_ROWS, cache_key, cached_rows
from workings.data.rows import RowSet, build_rows
from workings.engines.base import AdapterEngine, Engine, LikelihoodEngine, State
from workings.errors import RequestError
from workings.hardware.machine import cache_directory
from workings.models.batch import Batch, BatchShape
from workings.record import jsonl
from workings.record.digest import bytes_digest
from workings.record.layout import REFERENCE_LOG_PROBS, ROWS
from workings.record.writer import RunWriter
from workings.runs.resolve import ResolvedRun
from workings.training.experience import Experience, TraceExperience
from workings.training.pair_experience import PairExperience, ask_reference


@dataclass(frozen=True, kw_only=True)
class TraceData:
    """Rows of traces, in batches whose order is known before the first step."""

    rows: RowSet
    batches: Batches
    steps: int
    """Of the run: as the recipe says, or counted from its epochs."""

    @property
    def digests(self) -> dict[str, str]:
        """That of the rows."""
        return {"rows": self.rows.digest}

    def check(self, engine: Engine) -> None:
        """Every engine learns from traces."""

    def shapes(self) -> list[BatchShape]:
        """All shapes (A, B, S), longest first."""
        return self.batches.shapes()

    def blank(self, shape: BatchShape) -> Batch:
        """A batch without contents."""
        return self.batches.blank(shape)

    def write(self, writer: RunWriter) -> None:
        """Write the row index."""
        # Cleaned when the rows were made: their digest has to be that of the bytes on the disk.
        writer.write_cleaned(ROWS, self.rows.index_bytes)

    def facts(self) -> dict[str, Any]:
        """Padding, the positions with which every row begins, and the digest of the whole index."""
        return {"padding_share_of_first_epoch": self.batches.padding_share(),
                "shared_prefix_of_rows": self.rows.shared_prefix,
                "row_index": bytes_digest(bytes(self.rows.index_bytes))}

    def sentence(self) -> str:
        """Rows, dropped ones, supervised tokens and, where a row learns several, turns of the assistant; padding."""
        turns = self.rows.learned_turns
        return (f"{len(self.rows.rows):,} rows, {len(self.rows.dropped):,} dropped, "
                f"{self.rows.supervised_tokens:,} supervised tokens an epoch"
                f"{f' in {turns:,} turns of the assistant' if turns > len(self.rows.rows) else ''}, "
                f"{self.batches.padding_share():.1%} padding in epoch 0")

    def experience(self, engine: Engine, writer: RunWriter) -> AbstractContextManager[Experience]:
        """Batches by their position."""
        del engine, writer
        # Nothing to close here; rollouts keep a process for rewards as long as the context lasts.
        return nullcontext(TraceExperience(self.batches))


@dataclass(frozen=True, kw_only=True)
class PairData(TraceData):
    """Rows of preference pairs; what the reference says of them is asked before the first step, and recorded."""

    recipe: Recipe

    def check(self, engine: Engine) -> None:
        """Raise `RequestError` where this engine does not say how likely it finds rows, or not without adapters."""
        name = f"algorithm.name: {self.recipe.algorithm.name}"
        if not isinstance(engine, LikelihoodEngine):
            raise RequestError(f"{name} with engine {engine.name}", "an engine that says log probabilities",
                               "engine=jax")
        if self.recipe.method.name != "full" and not isinstance(engine, AdapterEngine):
            raise RequestError(f"{name} with adapters of engine {engine.name}", "an engine that switches them off",
                               "method.name=full, or engine=jax")

    def facts(self) -> dict[str, Any]:
        """Also how many pairs there are."""
        return {**super().facts(), "pairs": len(self.rows.rows) // 2}

    def sentence(self) -> str:
        """Pairs before all else."""
        return f"{len(self.rows.rows) // 2:,} pairs: {super().sentence()}"

    def experience(self, engine: Engine, writer: RunWriter) -> AbstractContextManager[Experience]:
        """Batches by their position, once the reference was asked."""
        place = writer.path(REFERENCE_LOG_PROBS)

        def ask(state: State) -> LogProbs:
            started = perf_counter()
            said = self.ask(engine, state)
            writer.event("reference", rows=len(said), seconds=perf_counter() - started)
            return said

        def keep(said: LogProbs) -> None:
            writer.write_jsonl(REFERENCE_LOG_PROBS, to_lines(said))

        return nullcontext(PairExperience(
            # A resumed run reads what was recorded: its state is no longer the one that the reference was.
            self.batches, ask=ask, recorded=lambda: from_lines(jsonl.read(place)[0]) if place.is_file() else None,
            record=keep))

    def ask(self, engine: Engine, state: State) -> LogProbs:
        """What the reference says of the rows that the run learns from; ``state`` is the one before the first step."""
        reference = self.reference(engine, state)
        assert isinstance(engine, LikelihoodEngine)  # as `check` has seen
        return ask_reference(engine, reference, self.batches, self.steps)

    def reference(self, engine: Engine, state: State) -> State:
        """The model that training began with: ``state`` itself, or what lies below its adapters."""
        self.check(engine)
        if self.recipe.method.name == "full":
            return state
        assert isinstance(engine, AdapterEngine)  # as `check` has seen
        return engine.without_adapters(state)


def read_rows(resolved: ResolvedRun) -> Callable[[int], TraceData]:
    """The proved rows of a recipe's traces or pairs; those of a large data set are kept between runs.

    Returns:
        A function of the number of devices over which rows are split.

    Raises:
        RequestError: a trace or a pair that must not be learned from.
    """
    data, settings = resolved.data, (resolved.tokenizer, resolved.template, resolved.recipe.data)

    def make() -> RowSet:
        if resolved.recipe.learns_from_pairs:
            return build_pair_rows(data.pairs, *settings).rows
        return build_rows(data.traces, *settings)

    # Traces that were cut are not those whose digest is the key of the cache.
    if len(data.traces) + len(data.pairs) < MIN_CACHED_ROWS or not data.is_full:
        rows = make()
    else:
        rows = cached_rows(cache_directory() / "rows", cache_key(data.digests["traces"], *settings), make)
    return partial(rows_data, resolved.recipe, rows)


def rows_data(recipe: Recipe, rows: RowSet, fsdp: int) -> TraceData:
    """Rows in the batches of a recipe, over so many devices."""
    batches = Batches(PairRows(rows) if recipe.learns_from_pairs else rows, seed=recipe.seed,
                      rows_per_micro_batch=recipe.batch.micro_batch * fsdp, accumulation=recipe.batch.accumulation,
                      data_config=recipe.data)
    steps = recipe.training.steps or batches.steps_in(recipe.training.epochs)
    if recipe.learns_from_pairs:
        return PairData(rows=rows, batches=batches, steps=steps, recipe=recipe)
    return TraceData(rows=rows, batches=batches, steps=steps)
