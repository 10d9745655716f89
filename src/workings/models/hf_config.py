"""The parts of Hugging Face's ``config.json`` that several families share: rotary settings and sliding layers."""

from collections.abc import Mapping
from typing import Any

from workings.errors import RequestError
from workings.models.shape import ModelShape


def read_rotation(config: Mapping[str, Any]) -> dict[str, Any]:
    """Rotary settings from either of Hugging Face's spellings (`rope_parameters`, or `rope_theta` and friends).

    Raises:
        RequestError: a kind of scaling that this package does not compute.
    """
    given = config.get("rope_parameters") or {}
    # Where layers turn by two bases, the parameters are nested by the kind of layer.
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
    # `type` is the older spelling.
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    if kind == "linear":
        found["rope_scaling"] = float(scaling["factor"])
    elif kind == "llama3":
        found["rope_llama3"] = (float(scaling["factor"]), float(scaling["low_freq_factor"]),
                                float(scaling["high_freq_factor"]), int(scaling["original_max_position_embeddings"]))
    elif kind != "default":
        raise RequestError(f"rope scaling of type {kind!r}", "default, linear or llama3")
    return found


def write_rotation(shape: ModelShape) -> dict[str, Any]:
    """The scaling of rotary embeddings; nothing where there is none."""
    if shape.rope_llama3:
        factor, low, high, original = shape.rope_llama3
        return {"rope_scaling": {"rope_type": "llama3", "factor": factor, "low_freq_factor": low,
                                 "high_freq_factor": high, "original_max_position_embeddings": int(original)}}
    if shape.rope_scaling != 1.0:
        return {"rope_scaling": {"rope_type": "linear", "factor": shape.rope_scaling}}
    return {}


def read_sliding(config: Mapping[str, Any], usual_pattern: int) -> dict[str, Any]:
    """Window and pattern of sliding layers.

    Raises:
        RequestError: a list of layer types that is not 'every n-th layer is global'.
    """
    kinds, layers = config.get("layer_types"), int(config["num_hidden_layers"])
    pattern = int(config.get("sliding_window_pattern") or usual_pattern)
    if kinds:
        # The first global layer gives the pattern, which the whole list then has to repeat.
        pattern = kinds.index("full_attention") + 1 if "full_attention" in kinds else layers + 1
        expected = ["full_attention" if (i + 1) % pattern == 0 else "sliding_attention" for i in range(layers)]
        if list(kinds) != expected:
            raise RequestError(f"layer_types: {kinds}", f"every n-th layer global, e.g. {expected}")
    return {"sliding_window": int(config["sliding_window"]), "sliding_pattern": pattern}


def layer_types(shape: ModelShape) -> list[str]:
    """Hugging Face's kind of every layer."""
    return ["sliding_attention" if shape.slides(i) else "full_attention" for i in range(shape.layers)]


def require(config: Mapping[str, Any], keys: tuple[str, ...]) -> None:
    """Raise `RequestError` where a ``config.json`` lacks one of these keys."""
    if missing := [key for key in keys if key not in config]:
        raise RequestError(f"a config.json without {', '.join(missing)}", "a complete Hugging Face config.json")
