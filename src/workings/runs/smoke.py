"""`--smoke`: runs a whole recipe with a tiny model of the same architecture in under a minute."""

from dataclasses import replace
from typing import Any

from workings.config.families import TEMPLATES
from workings.config.load import LoadedRecipe, check_recipe
from workings.data.preferences import Verdict
from workings.errors import RequestError
from workings.inputs.datasets import RunData
from workings.inputs.resolve import TRAINED_VOCABULARY, find_shape, is_verified
from workings.models.registry import find_family
from workings.models.tokenizer_training import CONTROL_TOKENS

# Fewer key heads than query heads, to test grouped attention.
TINY = {"layers": 2, "width": 32, "mlp_width": 64, "heads": 2, "kv_heads": 1, "head_dim": 16}
TRACES, ITEMS = 64, 16
"""Traces and items that a smoke run reads at most."""
ROWS = 4
"""Most rows of a micro batch."""
NEW_TOKENS = 32
"""Most tokens of a completion."""
STEPS = 2
"""Steps of a smoke run, if not given."""


def shrink(loaded: LoadedRecipe, steps: int = STEPS) -> LoadedRecipe:
    """The recipe with a tiny model from scratch, few steps and small batches; everything else as it was.

    Raises `RequestError` for a recipe with a teacher, and for a model of no known family.
    """
    recipe = loaded.recipe
    if recipe.algorithm.teacher_keys is not None:
        raise RequestError(f"--smoke does not work with algorithm.name: {recipe.algorithm.name}",
                           "a model with the teacher's vocabulary; a tiny model has another one",
                           "training.steps=2, without --smoke")
    if not is_verified(loaded):
        raise RequestError("--smoke cannot make a model with model.verified: false",
                           "a model of a family that it can make small", "training.steps=2, without --smoke")
    values = recipe.model_dump(mode="json", exclude_unset=True)
    values["name"] += "-smoke"
    family = find_shape(loaded, vocabulary=TRAINED_VOCABULARY).family
    # At least one period of hybrid layers.
    layers = max(TINY["layers"], find_family(family).switches.get("linear_pattern", 0))
    values["model"] = {"source": "scratch", "shape": {"family": family, **TINY, "layers": layers}}
    # A model with a new vocabulary needs neither the Hub nor a large embedding.
    values["tokenizer"] = "train"
    # A trained tokenizer has Gemma 1 to 3's turns and replaces others.
    if not {*TEMPLATES[recipe.data.template]} <= {*CONTROL_TOKENS}:
        values["data"]["template"] = "tokenizer"
    # A tiny model has no per-layer embeddings that could be on the host.
    values.get("memory", {}).pop("per_layer_embeddings", None)
    values.pop("device", None)
    values.pop("mesh", None)
    values["batch"]["micro_batch"] = min(ROWS, recipe.batch.micro_batch)
    if recipe.algorithm.examples == "prompts":
        _shrink_rollouts(values)
    if recipe.environment is not None:
        values["environment"] = recipe.environment.model_dump() | {"tasks": TRACES}
    # A warmup that does not end before the last step would be refused.
    for key in ("epochs", "warmup_steps"):
        values["training"].pop(key, None)
    values["training"]["steps"] = steps
    # Test saving too: the recipe's interval may be longer than the run.
    values.setdefault("checkpoint", {})["every_steps"] = 1
    values.setdefault("evaluation", {})["max_new_tokens"] = min(NEW_TOKENS, recipe.evaluation.max_new_tokens)
    return replace(loaded, recipe=check_recipe(values, f"{loaded.origin} with --smoke"))


def _shrink_rollouts(values: dict[str, Any]) -> None:
    """Makes whole groups on any number of devices, and short completions, in place."""
    values["batch"]["micro_batch"] = values["algorithm"]["group"] = ROWS
    new_tokens = min(NEW_TOKENS, values["algorithm"].get("max_new_tokens", NEW_TOKENS))
    values["algorithm"]["max_new_tokens"] = new_tokens
    # The punishment of long completions cannot begin before their first token.
    for reward in values.get("rewards", ()):
        if "buffer" in reward:
            reward["buffer"] = min(new_tokens, reward["buffer"])


def truncate(data: RunData) -> RunData:
    """The first few traces and items."""
    # Verdicts stay: the first ones may all have one prompt.
    examples = [one for number, one in enumerate(data.examples) if number < TRACES or isinstance(one, Verdict)]
    return replace(data, examples=examples, prompts=data.prompts[:TRACES],
                   held_out=data.held_out[:ITEMS], items=data.items[:ITEMS])
