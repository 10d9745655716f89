"""Families that are read from GGUF files and written to them: keys of the header, names and values of tensors.

A header has ``{"general.architecture": "llama", "llama.embedding_length": 2048, ...}`` where ``config.json`` has
``{"model_type": "llama", "hidden_size": 2048, ...}``.
"""

from collections.abc import Mapping
from dataclasses import replace
from math import pi
from typing import Any

import numpy as np

from workings.errors import RequestError
from workings.models.registry import find_family
from workings.models.shape import ModelShape
from workings.models.shapes import check_shape, from_hf_config, to_hf_config
from workings.models.weights import tensor_shapes

ROPE_FACTORS = "rope_freqs.weight"
"""Tensor of a GGUF file that divides each frequency of rotation, in place of Llama 3.1's settings."""
LLAMA3_RULE = (1.0, 4.0, 8192)
"""Low and high factor and original context of every published Llama 3.1, 3.2 and 3.3."""
ARCHITECTURES = ("llama", "smollm3", "gemma", "gemma2", "gemma3", "qwen2", "qwen3")
"""Families that are read. `general.architecture` is the family's name."""
ROTATED_NEIGHBOURS = ("llama", "smollm3")
"""Families whose query and key rows that rotate together are neighbours. Hugging Face stores them in two halves."""
MEAN_HEAD_LAYERS = {"gemma2": 46, "gemma3": 62}
"""Number of layers of a family's one model whose scores llama.cpp scales by width / heads, not by the head size."""
SIZES = {"layers": "block_count", "context": "context_length", "width": "embedding_length",
         "mlp_width": "feed_forward_length", "heads": "attention.head_count"}
"""Field of `ModelShape` -> key after the architecture's name. Every file has these keys."""
RENAMED = {".dt_bias": ".dt_proj.bias", ".router.scale": ".router.proj.scale",
           ".router.per_expert_scale": ".experts.down_proj.scale"}
"""End of Hugging Face's name -> end by which the `gguf` package finds the tensor."""


def gguf_names(shape: ModelShape, architecture: str) -> dict[str, str]:
    """Hugging Face's name of every tensor of a model -> its name in a GGUF file of an architecture."""
    import gguf

    kinds = {name: kind for kind, name in gguf.MODEL_ARCH_NAMES.items()}
    table = gguf.get_tensor_name_map(kinds[architecture], shape.layers)
    names = dict[str, str]()
    for name in tensor_shapes(shape):
        known_as = name
        for end, other_end in RENAMED.items():
            if name.endswith(end):
                known_as = name.removesuffix(end) + other_end
        gguf_name = table.get_name(known_as, try_suffixes=(".weight", ".bias", ".scale"))
        if gguf_name is None:
            raise RequestError(f"GGUF has no name for {name} of a {shape.family} model",
                               "a model whose tensors all have a name in GGUF")
        names[name] = gguf_name
    return names


def to_gguf(shape: ModelShape, name: str, tensor: np.ndarray) -> np.ndarray:
    """The tensor of Hugging Face's ``name`` with the values of a GGUF file, in the same number format."""
    return _changed(shape, name, tensor, norm_offset=1, rows_of_head=(2, -1))


def from_gguf(shape: ModelShape, name: str, tensor: np.ndarray) -> np.ndarray:
    """The inverse of `to_gguf`. Norms should be float32: a value near 1 loses bits in a smaller format."""
    return _changed(shape, name, tensor, norm_offset=-1, rows_of_head=(-1, 2))


def _changed(shape: ModelShape, name: str, tensor: np.ndarray, *, norm_offset: int,
             rows_of_head: tuple[int, int]) -> np.ndarray:
    """A norm with an offset, or query and key rows whose two axes within a head, (half, pair), are exchanged.

    For GGUF the rows 0 1 2 3 of a head of four become 0 2 1 3.
    """
    if shape.norm_plus_one and name.endswith("norm.weight"):
        return tensor + np.asarray(norm_offset, tensor.dtype)
    heads_of = {".q_proj.": shape.heads, ".k_proj.": shape.kv_heads}
    heads = next((heads for part, heads in heads_of.items() if part in name), None)
    if heads is None or shape.family not in ROTATED_NEIGHBOURS:
        return tensor
    return tensor.reshape(heads, *rows_of_head, *tensor.shape[1:]).swapaxes(1, 2).reshape(tensor.shape)


def hyperparameters(shape: ModelShape) -> dict[str, Any]:
    """Header without the architecture's name in keys. Raises `RequestError` for a setting that GGUF cannot hold."""
    family = find_family(shape.family)
    _refuse_other_rules(shape, family.switches)
    optional = {"attention.sliding_window": shape.sliding_window, "attn_logit_softcapping": shape.attention_softcap,
                "final_logit_softcapping": shape.final_softcap}
    values = common_header(shape) | {key: value for key, value in optional.items() if value}
    if shape.sliding_window and shape.sliding_pattern != family.switches.get("sliding_pattern", 0):
        values["attention.sliding_window_pattern"] = shape.sliding_pattern
    if family.local_rotation:
        values["rope.freq_base_swa"] = shape.local_rope_theta
    if shape.rope_scaling != 1.0:
        values |= {"rope.scaling.type": "linear", "rope.scaling.factor": shape.rope_scaling}
    return values


def common_header(shape: ModelShape) -> dict[str, Any]:
    """Keys that the header of nearly every architecture has."""
    values: dict[str, Any] = {key: getattr(shape, field) for field, key in SIZES.items()}
    return values | {
        "attention.head_count_kv": shape.kv_heads, "attention.key_length": shape.head_dim,
        "attention.value_length": shape.head_dim, "rope.dimension_count": shape.head_dim,
        "attention.layer_norm_rms_epsilon": shape.rms_norm_eps, "rope.freq_base": shape.rope_theta,
        "vocab_size": shape.vocab_size}


def _refuse_other_rules(shape: ModelShape, switches: Mapping[str, Any]) -> None:
    """Raise `RequestError` for a model that llama.cpp would compute by other rules than ours."""
    scale = shape.query_scale or shape.head_dim ** -0.5
    rules = {
        "rotation by YaRN": bool(shape.rope_yarn),
        "kinds of layers that no pattern gives": bool(shape.layer_types),
        f"every {shape.unrotated_pattern}th layer without rotation":
            shape.unrotated_pattern != switches.get("unrotated_pattern", 0),
        f"scores scaled by {scale:g}": not np.isclose(scale, _query_scale(shape), rtol=1e-6)}
    if wrong := [rule for rule, differs in rules.items() if differs]:
        raise RequestError(f"GGUF cannot hold a {shape.family} model with {', '.join(wrong)}",
                           "settings that GGUF has keys for, or llama.cpp's own")


def _query_scale(shape: ModelShape) -> float:
    """llama.cpp's scale of scores, which no key states."""
    has_mean_head = shape.layers == MEAN_HEAD_LAYERS.get(shape.family)
    return float((shape.width // shape.heads if has_mean_head else shape.head_dim) ** -0.5)


def read_hyperparameters(header: Mapping[str, Any], rows: int, has_head: bool,
                         factors: np.ndarray | None = None) -> ModelShape:
    """Shape of the model in a GGUF file. Raises `RequestError` for keys that are missing or not read.

    ``header`` has every key of the file, ``rows`` are those of the embedding, and ``factors`` is the content of
    `ROPE_FACTORS`. ``has_head``: whether the file has an output matrix besides the embedding.
    """
    name = str(header.get("general.architecture", "none"))
    if name not in ARCHITECTURES:
        raise RequestError(f"GGUF files of architecture {name} cannot be read", f"one of {', '.join(ARCHITECTURES)}",
                           "the model's folder in safetensors")
    keys = {key.removeprefix(f"{name}."): _exact(value) for key, value in header.items() if key.startswith(f"{name}.")}
    _check_header(keys, name)
    sizes = {field: int(keys[key]) for field, key in SIZES.items()}
    head_dim = int(keys.get("attention.key_length", sizes["width"] // sizes["heads"]))
    for key in ("attention.value_length", "rope.dimension_count"):
        if int(keys.get(key, head_dim)) != head_dim:
            raise RequestError(f"the GGUF file has {name}.{key}: {keys[key]}, but heads of size {head_dim}",
                               f"{name}.{key}: {head_dim}")
    switches = find_family(name).switches
    sliding = _sliding(keys, name, switches["sliding_pattern"]) if "sliding_pattern" in switches else {}
    shape = ModelShape(**(dict(switches) | sizes | sliding | {
        "family": name, "vocab_size": rows, "tied_embeddings": not has_head, "head_dim": head_dim,
        "kv_heads": int(keys.get("attention.head_count_kv", sizes["heads"])),
        "rms_norm_eps": float(keys["attention.layer_norm_rms_epsilon"]),
        "rope_theta": float(keys.get("rope.freq_base", 10_000.0)),  # llama.cpp's value for Gemma 1 and 2
        "rope_scaling": 1.0 if keys.get("rope.scaling.type") == "none" else float(keys.get("rope.scaling.factor", 1.0)),
    }))
    if name in MEAN_HEAD_LAYERS:
        shape = replace(shape, query_scale=_query_scale(shape))
    if factors is not None:
        shape = replace(shape, rope_llama3=_llama3_settings(shape, factors))
    # config.json writes numbers with the same meaning in one way; the model will be loaded from it.
    return from_hf_config(to_hf_config(check_shape(shape)))


def _exact(value: Any) -> Any:
    """A float32 number as the shortest decimal that rounds to it, which was most likely stored."""
    return float(str(np.float32(value))) if isinstance(value, float) else value


def _check_header(keys: Mapping[str, Any], name: str) -> None:
    """Raise `RequestError` for keys that are missing, or whose values are not read."""
    needed = (*SIZES.values(), "attention.layer_norm_rms_epsilon")
    if missing := [f"{name}.{key}" for key in needed if key not in keys]:
        raise RequestError(f"the GGUF file lacks {', '.join(missing)}", f"a complete GGUF file of a {name} model",
                           "download the file again")
    if lists := [f"{name}.{key}" for key in (*SIZES.values(), "attention.head_count_kv")
                 if isinstance(keys.get(key), list)]:
        raise RequestError(f"the layers of the GGUF file differ in {', '.join(lists)}", "a model with equal layers")
    if keys.get("expert_count", 0) != 0:
        raise RequestError(f"the GGUF file has {name}.expert_count: {keys['expert_count']}", "0")
    if keys.get("rope.scaling.type", "none") not in ("none", "linear"):
        raise RequestError(f"the GGUF file has {name}.rope.scaling.type: {keys['rope.scaling.type']}", "none or linear")


def _sliding(keys: Mapping[str, Any], name: str, usual_pattern: int) -> dict[str, Any]:
    """Windows and soft caps of Gemma 2 and 3."""
    window = int(keys.get("attention.sliding_window", 4096 if name == "gemma2" else 0))
    if not window:
        raise RequestError(f"the GGUF file lacks {name}.attention.sliding_window", "a model with sliding layers")
    pattern = keys.get("attention.sliding_window_pattern", usual_pattern)
    kinds: tuple[str, ...] = ()
    if isinstance(pattern, list):  # whether each layer slides
        kinds, pattern = tuple("sliding" if slides else "global" for slides in pattern), 0
    return {"sliding_window": window, "sliding_pattern": int(pattern), "layer_types": kinds,
            "local_rope_theta": float(keys.get("rope.freq_base_swa", 10_000.0)),
            "attention_softcap": float(keys.get("attn_logit_softcapping", 50.0 if name == "gemma2" else 0.0)),
            "final_softcap": float(keys.get("final_logit_softcapping", 30.0 if name == "gemma2" else 0.0))}


def rope_factors(shape: ModelShape) -> np.ndarray | None:
    """Content of `ROPE_FACTORS`: ``[head_dim / 2]`` float32; None for a model without Llama 3.1's scaling."""
    return _llama3_factors(shape.rope_theta, shape.head_dim, shape.rope_llama3) if shape.rope_llama3 else None


def _llama3_factors(base: float, head_dim: int, settings: tuple[float, ...]) -> np.ndarray:
    """What each frequency is divided by, for settings as in `ModelShape.rope_llama3`."""
    factor, low, high, original = settings
    wavelengths = 2 * pi * base ** (np.arange(0, head_dim, 2, dtype=np.float64) / head_dim)
    smooth = np.clip((original / wavelengths - low) / (high - low), 0.0, 1.0)
    return (1 / ((1 - smooth) / factor + smooth)).astype(np.float32)


def _llama3_settings(shape: ModelShape, factors: np.ndarray) -> tuple[float, ...]:
    """The settings from which these factors were computed. Raises `RequestError` unless a published model has them."""
    settings = (float(factors.max()), *LLAMA3_RULE)
    made = _llama3_factors(shape.rope_theta, shape.head_dim, settings)
    if made.shape == factors.shape and np.allclose(made, factors, rtol=1e-4):
        return settings
    raise RequestError(f"{ROPE_FACTORS} of the GGUF file follows no published rule", "the factors of Llama 3.1 to 3.3")
