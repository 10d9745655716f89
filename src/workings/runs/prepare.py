"""Everything that must be right before a step is taken: data, tokenizer, model shape, device, and a step that fits."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from workings.config.data import DataConfig
from workings.config.load import LoadedRecipe
from workings.data.batches import Batches, fixed_batches
from workings.data.row_cache import FEWEST, cache_key, cached_rows
from workings.data.rows import RowSet, build_rows
from workings.engines.base import Engine, EngineRequest, Inspection
from workings.engines.registry import RegisteredEngine, find_engine
from workings.hardware.device import DeviceFacts
from workings.hardware.machine import cache_directory
from workings.models.batch import Batch
from workings.models.chat import ChatTemplate
from workings.models.shape import ModelShape
from workings.models.tokenizer import Tokenizer
from workings.planning.verdict import Verdict, judge
from workings.runs.datasets import Sources, find_sources
from workings.runs.inputs import Weights, find_shape, find_tokenizer, find_weights
from workings.training.schedule import Schedule


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A run that could start."""

    loaded: LoadedRecipe
    sources: Sources
    weights: Weights
    tokenizer: Tokenizer
    template: ChatTemplate
    rows: RowSet
    shape: ModelShape
    registered: RegisteredEngine
    engine: Engine
    device: DeviceFacts
    device_check: Mapping[str, Any]
    batches: Batches
    held_out: list[Batch]
    schedule: Schedule
    request: EngineRequest
    """What the engine was asked for."""
    longest_batch: tuple[int, int, int]
    """Accumulation, rows over all devices, positions: the batch that decides whether the run fits."""
    inspection: Inspection
    """What the compiler says about the step for that batch: the very program that the run will execute."""
    verdict: Verdict

    @property
    def global_batch(self) -> int:
        """Rows per update."""
        batch = self.loaded.recipe.batch
        return batch.micro_batch * batch.accumulation * self.device.mesh["fsdp"]


def prepare(loaded: LoadedRecipe, sources: Sources | None = None) -> Prepared:
    """Build and check everything; the cheap checks first, the device and the compiler last.

    Args:
        loaded: what is asked for.
        sources: the data, where the caller has read or cut it already.

    Raises:
        RequestError: anything asked for that is not there or does not go together.
    """
    recipe = loaded.recipe
    registered = find_engine(recipe.engine)
    sources = sources or find_sources(loaded)
    weights = find_weights(loaded, tensors=False)
    tokenizer = find_tokenizer(loaded, weights, sources.traces)
    template = ChatTemplate.for_config(recipe.data.template, tokenizer)
    rows = _rows(sources, tokenizer, template, recipe.data)
    shape = find_shape(loaded, weights, tokenizer)

    request = EngineRequest.of(recipe, shape, weights=weights.directory)
    engine = registered.engine.open(request)
    device = engine.describe()
    device_check = engine.check_device()
    rows_per_micro_batch = recipe.batch.micro_batch * device.mesh["fsdp"]
    batches = Batches(rows, seed=recipe.seed, rows_per_micro_batch=rows_per_micro_batch,
                      accumulation=recipe.batch.accumulation, data_config=recipe.data)
    held_out: list[Batch] = []
    if sources.held_out:
        held_out_rows = build_rows(sources.held_out, tokenizer, template, recipe.data)
        held_out = fixed_batches(held_out_rows, rows_per_batch=rows_per_micro_batch, data_config=recipe.data)
    # The longest batch decides whether the run fits; compiling it here is compiling what the loop then runs. No weight
    # has been read so far.
    longest = batches.shapes()[0]
    inspection = engine.inspect(batches.blank(longest))
    if limit := inspection.details.get("limit_bytes"):  # a compiler that refused names the limit that it kept to
        device = replace(device, memory_limit_bytes=int(limit), memory_limit_source="the compiler")
    return Prepared(
        loaded=loaded, sources=sources, weights=weights, tokenizer=tokenizer, template=template, rows=rows, shape=shape,
        registered=registered, engine=engine, device=device, device_check=device_check, batches=batches,
        held_out=held_out, schedule=Schedule.of(recipe.training), request=request, longest_batch=longest,
        inspection=inspection, verdict=judge(inspection, device))


def _rows(sources: Sources, tokenizer: Tokenizer, template: ChatTemplate, config: DataConfig) -> RowSet:
    """The proved rows of the traces; those of a large data set are kept between runs."""
    make = partial(build_rows, sources.traces, tokenizer, template, config)
    if len(sources.traces) < FEWEST or not sources.whole:
        return make()
    return cached_rows(cache_directory() / "rows", cache_key(sources.digests["traces"], tokenizer, template, config),
                       make)
