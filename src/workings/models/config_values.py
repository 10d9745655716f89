"""Whether the values of a ``config.json`` are of the kinds and sizes that they are for any model at all.

`Family.read_config` says what they mean; this comes first, so that nothing there meets a text for a number, a list for
an object, or a number of layers so large that their names alone fill the memory.
"""

from collections.abc import Mapping
from typing import Any

from workings.errors import RequestError

MAX_LAYERS, MAX_TOKENS, MAX_VALUE = 10_000, 1 << 40, 1 << 26
"""Largest number of layers, of positions, and of everything else; far above every model that was ever published."""
_LAYERS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers", "layers")
_CONTEXTS = ("max_position_embeddings", "n_positions", "max_seq_len", "n_ctx", "context")
_SIZES = (*_LAYERS, *_CONTEXTS, "vocab_size", "vocab_size_per_layer_input", "hidden_size", "n_embd", "d_model", "width",
          "num_attention_heads", "n_head", "num_heads", "n_heads", "heads", "num_key_value_heads", "num_kv_heads",
          "kv_heads", "head_dim", "intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size", "mlp_width",
          "linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim", "linear_value_head_dim",
          "linear_conv_kernel_dim")
"""Keys of whole numbers from 1 on: Hugging Face's and those of `ModelShape`."""
_COUNTS = ("num_kv_shared_layers", "hidden_size_per_layer_input", "no_rope_layer_interval", "global_head_dim",
           "num_global_key_value_heads", "num_experts", "top_k_experts", "moe_intermediate_size", "sliding_window",
           "sliding_window_pattern", "full_attention_interval")
"""Keys of whole numbers from 0 on."""
_POSITIVE = ("rms_norm_eps", "layer_norm_epsilon", "rope_theta", "rope_local_base_freq", "query_pre_attn_scalar",
             "factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings", "beta_fast",
             "beta_slow", "attention_factor", "partial_rotary_factor")
"""Keys of numbers above 0."""
_NUMBERS = ("final_logit_softcapping", "attn_logit_softcapping")
"""Keys of numbers from 0 on."""
_SWITCHES = ("tie_word_embeddings", "attention_bias", "mlp_bias", "use_qk_norm", "attention_k_eq_v",
             "use_double_wide_mlp", "attn_output_gate")
"""Keys that are true or false: a text such as "no" would count as true."""
_DTYPES = ("float32", "float16", "bfloat16", "float64", "auto")
"""Values of ``torch_dtype`` or ``dtype``, with or without the prefix ``torch.``."""
_LISTS = ("layer_types", "no_rope_layers", "architectures")
"""Keys of lists of texts or whole numbers."""
_OBJECTS = ("rope_parameters", "rope_scaling", "full_attention", "sliding_attention", "text_config")
"""Keys of further objects, whose values are looked at as well."""
_NEEDED_BY_SCALING = {"linear": ("factor",),
                      "llama3": ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
                      "yarn": ("factor", "original_max_position_embeddings")}
_LARGEST = 1e300
"""Above it are infinities, and integers that no float holds; a comparison with not-a-number is false as well."""
_DEPTH = 3
"""`text_config.rope_parameters.full_attention` is as deep as published files go."""


def check_values(config: Mapping[str, Any], place: str = "") -> None:
    """Raise `RequestError` for a value that no model has; ``place`` is the key that this object is under.

    A key that is missing or null says nothing here: whether it is needed is the family's matter.
    """
    for key, value in config.items():
        if value is not None and (expected := _expected(key, value)):
            raise RequestError(f"{place}{key} cannot be {str(value)[:80]}", expected)
        # A limit, because the file comes from somewhere else and may be nested without end.
        if key in _OBJECTS and value is not None and place.count(".") < _DEPTH:
            check_values(value, f"{place}{key}.")
    kind = config.get("rope_type", config.get("type")) if place else None
    needed = _NEEDED_BY_SCALING.get(kind, ()) if isinstance(kind, str) else ()
    if missing := [key for key in needed if config.get(key) is None]:
        raise RequestError(f"{place}rope_type: {kind} needs {', '.join(missing)}", f"all of {', '.join(needed)}")


def _expected(key: str, value: Any) -> str:
    """Description of the expected value; empty if the value is valid."""
    if key in _SIZES or key in _COUNTS:
        least = int(key in _SIZES)
        most = MAX_LAYERS if key in _LAYERS else MAX_TOKENS if key in _CONTEXTS else MAX_VALUE
        # By type, because True is an int as well.
        return "" if type(value) is int and least <= value <= most else f"a whole number from {least} to {most}"
    if key in _POSITIVE or key in _NUMBERS:
        # Again by type, and bounded: JSON in Python reads `Infinity` and `NaN` as numbers.
        number = type(value) in (int, float) and abs(value) < _LARGEST
        if number and (value > 0 or (key in _NUMBERS and value == 0)):
            return ""
        return "a number above 0" if key in _POSITIVE else "a number from 0 on"
    if key in _LISTS:
        plain = isinstance(value, list | tuple) and all(type(entry) in (int, str) for entry in value)
        return "" if plain else "a list of texts or whole numbers"
    if key in _SWITCHES:
        return "" if isinstance(value, bool) else "true or false"
    if key in ("torch_dtype", "dtype"):
        named = isinstance(value, str) and value.removeprefix("torch.") in _DTYPES
        return "" if named else f"one of {', '.join(_DTYPES)}"
    if key == "quantization_config":
        return "a model in float32, bfloat16 or float16; method.name=qlora quantizes it itself"
    if key in _OBJECTS:
        return "" if isinstance(value, Mapping) else "a JSON object"
    return "the name of an architecture" if key == "model_type" and not isinstance(value, str) else ""
