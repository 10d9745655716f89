"""A sealed run, opened to be asked: its engine, its last checkpoint, its tokenizer and chat template."""

from dataclasses import dataclass, replace
from pathlib import Path

from workings.config.load import check_recipe
from workings.config.recipe import Recipe
from workings.config.training import MeshConfig
from workings.engines.base import Engine, EngineRequest, State
from workings.engines.registry import find_engine
from workings.errors import RecordError, RequestError
from workings.models.chat import ChatTemplate
from workings.models.shape import ModelShape
from workings.models.tokenizer import Tokenizer
from workings.record.canonical import loads
from workings.record.checkpoints import Checkpoint
from workings.record.layout import MODEL_SHAPE, TOKENIZER
from workings.record.reader import Run
from workings.runs.base_weights import base_weights

AS_RECORDED = "as recorded"
"""The device that the run's recipe asked for."""


@dataclass(frozen=True, kw_only=True)
class LoadedRun:
    """A trained model, ready to generate."""

    run: Run
    recipe: Recipe
    checkpoint: Checkpoint
    engine: Engine
    state: State
    tokenizer: Tokenizer
    template: ChatTemplate

    @property
    def root(self) -> str:
        """Root digest of the sealed run."""
        return self.run.root


def open_run(path: Path, device: str = AS_RECORDED) -> LoadedRun:
    """Open a sealed run's last checkpoint on the engine that made it.

    Args:
        path: the run directory.
        device: `auto`, `cpu`, `gpu` or `tpu`; by default what the recipe asked for.

    Raises:
        RequestError: no sealed run there, its engine is not installed, its device is absent, or it holds adapters and
            the weights that they belong on are not where they were.
        RecordError: it has no intact checkpoint, or its files do not belong together.
    """
    run = Run.open(path)
    recipe = check_recipe(run.manifest.config_snapshot, str(path))
    checkpoint, skipped = run.checkpoints.latest_valid()
    if checkpoint is None:
        raise RecordError("\n".join([f"{path} has no intact checkpoint", *skipped]))
    tokenizer = Tokenizer.load(path / TOKENIZER)
    shape = ModelShape(**loads((path / MODEL_SHAPE).read_bytes()))
    wanted = recipe.device if device == AS_RECORDED else device
    request = EngineRequest.of(recipe, shape, device=wanted, weights=base_weights(run, recipe))
    opened = find_engine(recipe.engine).engine.open
    try:
        engine = opened(request)
    except RequestError:
        if recipe.mesh.fsdp in ("auto", 1) and recipe.mesh.tp == 1:
            raise
        # It was trained by more devices or processes than are here; where its weights lie does not change its answers.
        engine = opened(replace(request, mesh=MeshConfig(fsdp=1, tp=1)))
    return LoadedRun(run=run, recipe=recipe, checkpoint=checkpoint, engine=engine,
                     state=engine.restore(checkpoint.path), tokenizer=tokenizer,
                     template=ChatTemplate.for_config(recipe.data.template, tokenizer))
