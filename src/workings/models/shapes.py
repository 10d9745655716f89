"""Shapes from a recipe, from the catalog of published models, and from Hugging Face's ``config.json`` and back."""

import json
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import Any

from workings.config.model import ShapeConfig
from workings.errors import RequestError
from workings.models import gpt2
from workings.models.families import FAMILIES
from workings.models.shape import ModelShape
from workings.models.weights import parameter_count, tensor_shapes

__all__ = ["catalog", "from_hf_config", "parameter_count", "published_shape", "shape_from_config", "tensor_shapes",
           "to_hf_config"]

ARCHITECTURES = {
    "gemma": ("gemma", "GemmaForCausalLM"),
    "gemma2": ("gemma2", "Gemma2ForCausalLM"),
    "gemma3": ("gemma3_text", "Gemma3ForCausalLM"),
    "gpt2": ("gpt2", "GPT2LMHeadModel"),
    "llama": ("llama", "LlamaForCausalLM"),
    "qwen2": ("qwen2", "Qwen2ForCausalLM"),
    "qwen3": ("qwen3", "Qwen3ForCausalLM"),
}
"""Family -> Hugging Face's ``model_type`` and class."""


def check_shape(shape: ModelShape) -> ModelShape:
    """The shape itself, or a `RequestError` that shows the numbers that do not go together."""
    if shape.heads % shape.kv_heads:
        raise RequestError(f"heads: {shape.heads}, kv_heads: {shape.kv_heads}", "kv_heads divides heads",
                           f"kv_heads: {next(k for k in range(shape.kv_heads, 0, -1) if shape.heads % k == 0)}")
    if shape.family == "gpt2":
        gpt2.check(shape)
    if shape.vocab_size < 1:
        raise RequestError(f"vocab_size: {shape.vocab_size}", "a vocabulary of at least one token")
    return shape


def shape_from_config(config: ShapeConfig, vocab_size: int) -> ModelShape:
    """The shape that a recipe describes; what it does not say comes from the family's published models."""
    family = dict(FAMILIES[config.family])
    family["tied_embeddings"] = True  # from scratch, a second vocabulary matrix buys nothing at small size
    return check_shape(ModelShape(
        family=config.family, vocab_size=vocab_size, layers=config.layers, width=config.width,
        mlp_width=config.mlp_width, heads=config.heads, kv_heads=config.kv_heads, head_dim=config.head_dim,
        context=config.context, **family))


@cache
def catalog() -> dict[str, dict[str, Any]]:
    """The published shapes as the data file has them: name -> row (``shape``, ``parameters``, ``source``, …)."""
    text = files("workings.models").joinpath("published_shapes.json").read_text(encoding="utf-8")
    rows: dict[str, dict[str, Any]] = {row["name"]: row for row in json.loads(text)["models"]}
    return rows


def published_shape(name: str) -> ModelShape:
    """Shape of a published model by its catalog name, e.g. ``gemma-2b``. Raises `RequestError` for an unknown one."""
    rows = catalog()
    if name not in rows:
        near = get_close_matches(name, rows, 1) or ["gemma-2b"]
        raise RequestError(f"model shape {name!r}", f"one of {', '.join(rows)}", f"shape: {near[0]}")
    row = {key: tuple(value) if isinstance(value, list) else value for key, value in rows[name]["shape"].items()}
    return check_shape(ModelShape(**(FAMILIES[str(row["family"])] | row)))


def _rope(config: Mapping[str, Any]) -> dict[str, Any]:
    """Rotary settings from either of Hugging Face's spellings (`rope_parameters`, or `rope_theta` and friends)."""
    given = config.get("rope_parameters") or {}
    full = given.get("full_attention", given)
    local = given.get("sliding_attention", {})
    scaling = dict(config.get("rope_scaling") or {}) | {k: v for k, v in full.items() if k != "rope_theta"}
    found: dict[str, Any] = {}
    theta = full.get("rope_theta", config.get("rope_theta"))
    if theta is not None:
        found["rope_theta"] = float(theta)
    local_theta = local.get("rope_theta", config.get("rope_local_base_freq"))
    if local_theta is not None:
        found["local_rope_theta"] = float(local_theta)
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    if kind == "linear":
        found["rope_scaling"] = float(scaling["factor"])
    elif kind == "llama3":
        found["rope_llama3"] = (float(scaling["factor"]), float(scaling["low_freq_factor"]),
                                float(scaling["high_freq_factor"]), int(scaling["original_max_position_embeddings"]))
    elif kind != "default":
        raise RequestError(f"rope scaling of type {kind!r}", "default, linear or llama3")
    return found


def _sliding(config: Mapping[str, Any], family: str, layers: int) -> dict[str, Any]:
    """Sliding window and pattern; refuses a list of layer types that is not 'every n-th layer is global'."""
    if family not in ("gemma2", "gemma3"):
        if config.get("use_sliding_window"):
            raise RequestError(f"use_sliding_window: true in a {family} model", "a model without sliding windows")
        return {}
    kinds = config.get("layer_types")
    pattern = int(config.get("sliding_window_pattern") or FAMILIES[family]["sliding_pattern"])
    if kinds:
        pattern = kinds.index("full_attention") + 1 if "full_attention" in kinds else layers + 1
        expected = ["full_attention" if (i + 1) % pattern == 0 else "sliding_attention" for i in range(layers)]
        if list(kinds) != expected:
            raise RequestError(f"layer_types: {kinds}", f"every n-th layer global, e.g. {expected}")
    return {"sliding_window": int(config["sliding_window"]), "sliding_pattern": pattern}


def from_hf_config(config: Mapping[str, Any]) -> ModelShape:
    """Shape of a model from the content of its ``config.json``.

    A multimodal Gemma 3 config is read through its ``text_config``. Raises `RequestError` for an architecture or a
    setting that this package would compute differently from transformers.
    """
    if isinstance(config.get("text_config"), Mapping) and config.get("model_type") == "gemma3":
        config = {"vocab_size": 262_208, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
                  "max_position_embeddings": 131_072, "model_type": "gemma3_text", **config["text_config"]}
    names = {model_type: family for family, (model_type, _) in ARCHITECTURES.items()}
    if config.get("model_type") not in names:
        raise RequestError(f"model_type: {config.get('model_type')!r}", f"one of {', '.join(names)}")
    family = names[config["model_type"]]
    if family == "gpt2":
        return check_shape(ModelShape(family="gpt2", **(FAMILIES["gpt2"] | gpt2.from_config(config))))
    missing = [key for key in ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
                               "num_attention_heads", "max_position_embeddings") if key not in config]
    if missing:
        raise RequestError(f"a config.json without {', '.join(missing)}", "a complete Hugging Face config.json")
    if (config.get("attention_bias") and family != "qwen2") or config.get("mlp_bias"):
        raise RequestError("attention_bias or mlp_bias: true", "a model without these biases")
    heads, width = int(config["num_attention_heads"]), int(config["hidden_size"])
    head_dim = int(config.get("head_dim") or width // heads)
    switches = dict(FAMILIES[family])
    switches["tied_embeddings"] = bool(config.get("tie_word_embeddings", family.startswith("gemma")))
    if family in ("gemma2", "gemma3"):
        switches["attention_softcap"] = float(config.get("attn_logit_softcapping") or 0.0)
        switches["final_softcap"] = float(config.get("final_logit_softcapping") or 0.0)
        switches["query_scale"] = float(config.get("query_pre_attn_scalar", 256)) ** -0.5
    switches |= _rope(config) | _sliding(config, family, int(config["num_hidden_layers"]))
    return check_shape(ModelShape(
        family=family, vocab_size=int(config["vocab_size"]), layers=int(config["num_hidden_layers"]), width=width,  # type: ignore[arg-type]
        mlp_width=int(config["intermediate_size"]), heads=heads, head_dim=head_dim,
        kv_heads=int(config.get("num_key_value_heads") or heads), context=int(config["max_position_embeddings"]),
        **(switches | {"rms_norm_eps": float(config.get("rms_norm_eps", 1e-6))})))


def to_hf_config(shape: ModelShape) -> dict[str, Any]:
    """Content of a ``config.json`` that transformers opens as this very model."""
    if shape.family == "gpt2":
        return gpt2.to_config(shape)
    model_type, architecture = ARCHITECTURES[shape.family]
    activation = "gelu_pytorch_tanh" if shape.activation == "gelu_tanh" else "silu"
    config: dict[str, Any] = {
        "architectures": [architecture], "model_type": model_type, "vocab_size": shape.vocab_size,
        "hidden_size": shape.width, "intermediate_size": shape.mlp_width, "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads, "num_key_value_heads": shape.kv_heads, "head_dim": shape.head_dim,
        "max_position_embeddings": shape.context, "rms_norm_eps": shape.rms_norm_eps, "rope_theta": shape.rope_theta,
        "tie_word_embeddings": shape.tied_embeddings, "attention_bias": False,
        "hidden_act": activation, "hidden_activation": activation,
    }
    if shape.family == "qwen2":
        del config["attention_bias"]
    if shape.family in ("gemma2", "gemma3"):
        scale = shape.query_scale or shape.head_dim ** -0.5
        square = scale ** -2
        config |= {"query_pre_attn_scalar": round(square) if abs(square - round(square)) < 1e-6 else square,
                   "sliding_window": shape.sliding_window,
                   "attn_logit_softcapping": shape.attention_softcap or None,
                   "final_logit_softcapping": shape.final_softcap or None,
                   "layer_types": ["sliding_attention" if shape.slides(i) else "full_attention"
                                   for i in range(shape.layers)]}
    if shape.family == "gemma3":
        config["rope_local_base_freq"] = shape.local_rope_theta
    if shape.rope_scaling != 1.0:
        config["rope_scaling"] = {"rope_type": "linear", "factor": shape.rope_scaling}
    if shape.rope_llama3:
        factor, low, high, original = shape.rope_llama3
        config["rope_scaling"] = {"rope_type": "llama3", "factor": factor, "low_freq_factor": low,
                                  "high_freq_factor": high, "original_max_position_embeddings": int(original)}
    return config
