"""A recipe and a shape small enough to count by hand."""

from workings.config.load import check_recipe
from workings.config.recipe import Recipe
from workings.engines.base import EngineRequest, MeshShape
from workings.hardware.catalog import find_target
from workings.models.batch import BatchShape
from workings.models.shape import ModelShape
from workings.models.shapes import shape_from_config
from workings.planning.planned_run import PlannedRun, programs_of

SHAPE = {"family": "gemma", "layers": 2, "width": 16, "mlp_width": 32, "heads": 2, "kv_heads": 1, "head_dim": 8,
         "context": 128}


def recipe(**changes) -> Recipe:
    values = {
        "name": "counted", "model": {"source": "scratch", "shape": SHAPE}, "tokenizer": "train",
        "data": {"traces": "addition", "max_length": 64}, "batch": {"micro_batch": 4},
        "training": {"steps": 2, "learning_rate": 1e-3}, "optimizer": {"name": "adamw"},
        "memory": {"attention": "plain"}}
    return check_recipe(values | changes, "test")


def shape() -> ModelShape:
    return shape_from_config(recipe().model.shape, 96)


def request_of(asked: Recipe) -> EngineRequest:
    return EngineRequest(shape=shape(), device="gpu", optimizer=asked.optimizer, precision=asked.precision,
                         memory=asked.memory, mesh=asked.mesh, seed=0, method=asked.method)


def rewarded(**changes) -> Recipe:
    """The same recipe, which learns from rewards: 16 completions a rollout, of prompts of up to 48 tokens."""
    return recipe(**{"algorithm": {"name": "grpo", "group": 4, "max_new_tokens": 16, "updates": 2},
                     "rewards": [{"scorer": "answer"}], "batch": {"micro_batch": 4, "accumulation": 2}} | changes)


def planned_run(asked: Recipe, target: str, *, request: EngineRequest | None = None, fsdp: int = 1,
            step: tuple[int, int, int] | None = None) -> PlannedRun:
    """A run without the checks of `PlannedRun.on_target`, with another request or batch of its step if given."""
    programs = programs_of(asked, fsdp) | ({} if step is None else {"step": BatchShape(*step)})
    return PlannedRun(recipe=asked, request=request or request_of(asked), target=find_target(target),
                      mesh=MeshShape(fsdp, 1), programs=programs, device_bytes=find_target(target).memory_bytes)
