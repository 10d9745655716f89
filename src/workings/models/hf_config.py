"""The parts of Hugging Face's ``config.json`` that several families share: valid values, rotation, kinds of layers."""

from collections.abc import Callable, Mapping
from math import log
from typing import Any, NamedTuple

from workings.errors import RequestError
from workings.models.shape import ModelShape

MAX_LAYERS, MAX_TOKENS, MAX_VALUE = 10_000, 1 << 40, 1 << 26
"""Largest number of layers, of positions, and of everything else; far above every published model."""
SIZES: Mapping[str, tuple[str, ...]] = {
    "vocab_size": ("vocab_size",), "layers": ("num_hidden_layers", "n_layer", "num_layers", "n_layers"),
    "width": ("hidden_size", "n_embd", "d_model"), "heads": ("num_attention_heads", "n_head", "num_heads", "n_heads"),
    "context": ("max_position_embeddings", "n_positions", "max_seq_len", "n_ctx"),
    "kv_heads": ("num_key_value_heads", "num_kv_heads"), "head_dim": ("head_dim",),
    "mlp_width": ("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size")}
"""Fields of `ModelShape` -> names that ``config.json`` may have for them."""
_MOST = {"layers": MAX_LAYERS, "context": MAX_TOKENS}
_DTYPES = ("float32", "float16", "bfloat16", "float64", "auto")
"""Values of ``torch_dtype`` or ``dtype``, with or without the prefix ``torch.``."""
_OBJECTS = ("rope_parameters", "rope_scaling", "full_attention", "sliding_attention", "text_config")
"""Keys of objects whose values are checked as well."""
_NEEDED_BY_SCALING = {"linear": ("factor",),
                      "llama3": ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
                      "yarn": ("factor", "original_max_position_embeddings")}
_LARGEST = 1e300
"""Refuses infinities, and integers that no float holds."""
_DEPTH = 3
"""Levels of objects that are checked, as in `text_config.rope_parameters.full_attention`."""


class _Rule(NamedTuple):
    """A condition on a key's value, and its description in errors."""

    holds: Callable[[Any], bool]
    expected: str


def _whole(least: int, most: int = MAX_VALUE) -> _Rule:
    return _Rule(lambda value: type(value) is int and least <= value <= most, f"a whole number from {least} to {most}")


def _number(in_range: Callable[[float], bool], expected: str) -> _Rule:
    # Bounded, because Python's JSON reads `Infinity` and `NaN` as numbers.
    return _Rule(lambda value: type(value) in (int, float) and abs(value) < _LARGEST and in_range(value), expected)


_DTYPE = _Rule(lambda value: isinstance(value, str) and value.removeprefix("torch.") in _DTYPES,
               f"one of {', '.join(_DTYPES)}")
_RULES: dict[str, _Rule] = {
    **{key: _whole(1, _MOST.get(field, MAX_VALUE)) for field, names in SIZES.items() for key in (field, *names)},
    **dict.fromkeys((
        "vocab_size_per_layer_input", "linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim",
        "linear_value_head_dim", "linear_conv_kernel_dim"), _whole(1)),
    **dict.fromkeys((
        "num_kv_shared_layers", "hidden_size_per_layer_input", "no_rope_layer_interval", "global_head_dim",
        "num_global_key_value_heads", "num_experts", "top_k_experts", "moe_intermediate_size", "sliding_window",
        "sliding_window_pattern", "full_attention_interval"), _whole(0)),
    **dict.fromkeys((
        "rms_norm_eps", "layer_norm_epsilon", "rope_theta", "rope_local_base_freq", "query_pre_attn_scalar", "factor",
        "low_freq_factor", "high_freq_factor", "original_max_position_embeddings", "beta_fast", "beta_slow",
        "attention_factor", "partial_rotary_factor"), _number(lambda value: value > 0, "a number above 0")),
    **dict.fromkeys(("final_logit_softcapping", "attn_logit_softcapping"),
                    _number(lambda value: value >= 0, "a number from 0 on")),
    **dict.fromkeys(("tie_word_embeddings", "attention_bias", "mlp_bias", "use_qk_norm", "attention_k_eq_v",
                     "use_double_wide_mlp", "attn_output_gate"),
                    _Rule(lambda value: isinstance(value, bool), "true or false")),
    **dict.fromkeys(("layer_types", "no_rope_layers", "architectures"),
                    _Rule(lambda value: isinstance(value, list | tuple) and all(type(x) in (int, str) for x in value),
                          "a list of texts or whole numbers")),
    **dict.fromkeys(_OBJECTS, _Rule(lambda value: isinstance(value, Mapping), "a JSON object")),
    "torch_dtype": _DTYPE, "dtype": _DTYPE,
    "quantization_config": _Rule(lambda value: False,
                                 "a model in float32, bfloat16 or float16; method.name=qlora quantizes it itself"),
    "model_type": _Rule(lambda value: isinstance(value, str), "the name of an architecture")}
"""Keys of ``config.json``, and fields of `ModelShape`, whose values are checked."""


def check_values(config: Mapping[str, Any], place: str = "") -> None:
    """Raise `RequestError` for a value that no model has. Keys may be missing or null.

    ``place``: keys that lead to this object, such as ``text_config.``.
    """
    for key, value in config.items():
        rule = _RULES.get(key)
        if value is None or rule is None:
            continue
        if not rule.holds(value):
            raise RequestError(f"{place}{key} cannot be {str(value)[:80]}", rule.expected)
        if key in _OBJECTS and place.count(".") < _DEPTH:
            check_values(value, f"{place}{key}.")
    kind = config.get("rope_type", config.get("type")) if place else None
    needed = _NEEDED_BY_SCALING.get(kind, ()) if isinstance(kind, str) else ()
    if missing := [key for key in needed if config.get(key) is None]:
        raise RequestError(f"{place}rope_type: {kind} needs {', '.join(missing)}", f"all of {', '.join(needed)}")


SLIDING, GLOBAL, LINEAR = "sliding_attention", "full_attention", "linear_attention"
KINDS = {SLIDING: "sliding", GLOBAL: "global", LINEAR: "linear"}
"""Hugging Face's kinds of layers -> those of `ModelShape.layer_types`."""


def read_rotation(config: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of `ModelShape` for rotation. Raises `RequestError` for an unknown kind of scaling."""
    # transformers 5 writes `rope_parameters`, earlier ones `rope_theta` and `rope_scaling`.
    given = config.get("rope_parameters") or {}
    # With two bases the parameters are nested by the kind of layer.
    full, local = given.get("full_attention", given), given.get("sliding_attention", {})
    scaling = dict(config.get("rope_scaling") or {}) | {k: v for k, v in full.items() if k != "rope_theta"}
    bases = {"rope_theta": full.get("rope_theta", config.get("rope_theta")),
             "local_rope_theta": local.get("rope_theta", config.get("rope_local_base_freq"))}
    fields: dict[str, Any] = {name: float(base) for name, base in bases.items() if base is not None}
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    if kind == "linear":
        fields["rope_scaling"] = float(scaling["factor"])
    elif kind == "llama3":
        fields["rope_llama3"] = (float(scaling["factor"]), float(scaling["low_freq_factor"]),
                                 float(scaling["high_freq_factor"]), int(scaling["original_max_position_embeddings"]))
    elif kind == "yarn":
        fields["rope_yarn"] = _read_yarn(scaling)
    elif kind == "proportional":
        fields |= {"rotated_part": float(scaling.get("partial_rotary_factor", 1.0)),
                   "rope_scaling": float(scaling.get("factor", 1.0))}
    elif kind != "default":
        raise RequestError(f"rope scaling cannot be of type {kind!r}", "default, linear, llama3, yarn or proportional")
    return fields


def _read_yarn(scaling: Mapping[str, Any]) -> tuple[float, ...]:
    """`ModelShape.rope_yarn` from transformers' settings. Raises `RequestError` for variants of other families."""
    if variants := [name for name in ("mscale", "mscale_all_dim", "truncate") if scaling.get(name, True) is not True]:
        raise RequestError(f"rope scaling of type yarn cannot be computed with {', '.join(variants)}",
                           "YaRN as OLMo 3 uses it")
    factor = float(scaling["factor"])
    # Defaults of the paper and of transformers.
    attention_factor = scaling.get("attention_factor") or (0.1 * log(factor) + 1.0 if factor > 1 else 1.0)
    return (factor, int(scaling["original_max_position_embeddings"]), float(scaling.get("beta_fast") or 32),
            float(scaling.get("beta_slow") or 1), float(attention_factor))


def write_rotation(shape: ModelShape) -> dict[str, Any]:
    """`rope_scaling`, which every transformers reads; empty without scaling."""
    if shape.rope_llama3:
        factor, low, high, original = shape.rope_llama3
        return {"rope_scaling": {"rope_type": "llama3", "factor": factor, "low_freq_factor": low,
                                 "high_freq_factor": high, "original_max_position_embeddings": int(original)}}
    if shape.rope_yarn:
        factor, original, fast, slow, attention_factor = shape.rope_yarn
        return {"rope_scaling": {"rope_type": "yarn", "factor": factor, "beta_fast": fast, "beta_slow": slow,
                                 "original_max_position_embeddings": int(original),
                                 "attention_factor": attention_factor}}
    if shape.rope_scaling != 1.0:
        return {"rope_scaling": {"rope_type": "linear", "factor": shape.rope_scaling}}
    return {}


def read_pattern(config: Mapping[str, Any], other: str, field: str, usual: int, *,
                 last_global: bool = False) -> dict[str, Any]:
    """The pattern of global layers as ``field`` of `ModelShape`, or the kind of each layer if there is no pattern.

    ``other``: kind of the other layers; ``usual``: the pattern of files without `layer_types`; ``last_global``: the
    last layer is global in any case.
    """
    kinds, layers = config.get("layer_types"), int(config["num_hidden_layers"])
    if not kinds:
        return {field: usual}
    if len(kinds) != layers or not {*kinds} <= {other, GLOBAL}:
        raise RequestError(
            f"layer_types do not fit {layers} layers: {len(kinds)} of {', '.join(sorted(map(str, {*kinds})))}",
            f"{other} or {GLOBAL} for each layer")
    # With a pattern of 6, layers 5, 11, … are global; with one longer than the model, none is.
    first_global = kinds.index(GLOBAL) + 1 if GLOBAL in kinds else layers + 1
    # The usual pattern comes first, because few layers fit several.
    for pattern in (usual, first_global):
        expected = [GLOBAL if (i + 1) % pattern == 0 else other for i in range(layers)]
        if last_global:
            expected[-1] = GLOBAL
        if list(kinds) == expected:
            return {field: pattern}
    return {field: 0, "layer_types": tuple(KINDS[kind] for kind in kinds)}


def layer_types(shape: ModelShape) -> list[str]:
    """Hugging Face's kind of every layer."""
    return [LINEAR if shape.is_linear(i) else SLIDING if shape.slides(i) else GLOBAL for i in range(shape.layers)]


def require(config: Mapping[str, Any], keys: tuple[str, ...]) -> None:
    """Raise `RequestError` if a ``config.json`` lacks one of these keys, or has null for it."""
    if missing := [key for key in keys if config.get(key) is None]:
        raise RequestError(f"config.json lacks {', '.join(missing)}", "a complete Hugging Face config.json")
