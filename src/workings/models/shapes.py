"""Shapes from a recipe, from the catalog of published models, and from Hugging Face's ``config.json`` and back."""

import json
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import Any

from workings.config.model import ShapeConfig
from workings.errors import RequestError
from workings.models.hf_config import SIZES, check_values
from workings.models.registry import families, family_of, find_family, find_model_type
from workings.models.shape import ModelShape
from workings.models.unverified import unverified_shape


def check_shape(shape: ModelShape) -> ModelShape:
    """The shape itself. Raises `RequestError` for sizes that are inconsistent."""
    check_values({name: getattr(shape, name) for name in SIZES})
    if shape.heads % shape.kv_heads:
        divisor = next(k for k in range(shape.kv_heads, 0, -1) if shape.heads % k == 0)
        raise RequestError(f"heads ({shape.heads}) must be a multiple of kv_heads ({shape.kv_heads})", "a divisor",
                           f"kv_heads: {divisor}")
    family_of(shape).check(shape)
    return shape


def shape_from_config(config: ShapeConfig, vocab_size: int) -> ModelShape:
    """The shape that a recipe describes, with tied embeddings, and otherwise as the family's published models."""
    switches = find_family(config.family).scratch_switches(config.heads, config.head_dim) | {"tied_embeddings": True}
    return check_shape(ModelShape(vocab_size=vocab_size, **config.model_dump(), **switches))


@cache
def catalog() -> dict[str, dict[str, Any]]:
    """The published models: name -> row of the data file (``shape``, ``parameters``, ``source``, …)."""
    text = files("workings.models").joinpath("published_shapes.json").read_text(encoding="utf-8")
    return {row["name"]: row for row in json.loads(text)["models"]}


def published_shape(name: str) -> ModelShape:
    """Shape of a published model by its name in the catalog. Raises `RequestError` for an unknown one."""
    rows = catalog()
    if name not in rows:
        near = get_close_matches(name, rows, 1) or ["gemma-2b"]
        raise RequestError(f"there is no model shape {name!r}", f"one of {', '.join(rows)}", f"shape: {near[0]}")
    row = rows[name]["shape"]
    return check_shape(ModelShape(**(dict(find_family(row["family"]).switches) | row)))


def from_hf_config(config: Mapping[str, Any]) -> ModelShape:
    """Shape of a model, or of a multimodal model's text part, from the content of its ``config.json``.

    Raises `RequestError` for what this package would compute differently from transformers.
    """
    check_values(config)
    text_config, model_type = config.get("text_config"), str(config.get("model_type"))
    defaults = {name: keys for family in families() for name, keys in family.multimodal.items()}
    if model_type not in defaults or not isinstance(text_config, Mapping):
        model_config = config
    else:
        of_whole_model = {key: config[key] for key in ("tie_word_embeddings",) if key in config}
        model_config = {**defaults[model_type], **of_whole_model, **text_config}
    return check_shape(find_model_type(model_config).read_config(model_config))


def unverified_from_hf(config: Mapping[str, Any], stored: Mapping[str, tuple[int, ...]]) -> ModelShape:
    """Shape of a model of no known family (`model.verified: false`).

    ``config`` is the content of its ``config.json``, ``stored`` has name and shape of every tensor in its files. Raises
    `RequestError` if it is a model of a family, or not a causal model in plain numbers.
    """
    check_values(config)
    try:
        family = from_hf_config(config).family
    except RequestError:
        return check_shape(unverified_shape(config, stored))
    raise RequestError(f"model.verified: false contradicts the verified family {family}",
                       "true, because this package computes and checks the model itself",
                       "model.verified=true, or leave it out")


def to_hf_config(shape: ModelShape) -> dict[str, Any]:
    """Content of a ``config.json`` that transformers opens as this very model."""
    return family_of(shape).write_config(shape)
