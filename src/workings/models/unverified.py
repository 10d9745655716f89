"""Models outside of this package's families (`model.verified: false`): transformers' own class computes them.

A shape of such a model holds its ``config.json``, and names and sizes of tensors from the headers of its files. Its
numbers were not compared with a reference; `unverified_sentence` says so in every run and plan.
"""

import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from workings.errors import RequestError
from workings.models.family import HEAD, Family
from workings.models.hf_config import SIZES
from workings.models.shape import ModelShape

OUTER_PREFIXES = ("model.language_model.", "language_model.model.", "language_model.")
"""Prefixes of a text part's tensors in files of a multimodal model."""
OTHER_PARTS = ("visual.", "model.visual.", "vision_tower.", "model.vision_tower.", "audio_tower.", "model.audio_tower.",
               "multi_modal_projector.", "model.multi_modal_projector.", "mtp.", "model.mtp.")
"""Prefixes of tensors that a text model does not have: vision, audio, and heads that predict several tokens."""
COMPUTED = ("rotary_emb.inv_freq", "attention.bias", "attention.masked_bias")
"""Ends of the names of tensors that older files have, but transformers computes."""
NOT_KEPT = ("_name_or_path", "auto_map", "dtype", "torch_dtype", "transformers_version", "quantization_config",
            "vision_config", "audio_config", "text_config")
"""Keys of a ``config.json`` that do not describe the text model."""
MULTIMODAL_TYPE = "workings_text_part_of"
"""Key that is added to a text part's keys: ``model_type`` of the multimodal model."""
NO_PROJECTIONS = ("norm", "layernorm", "router", "wte", "embeddings", "bias")
"""Ends of the names of matrices that are not linear layers."""
NAME = re.compile(r"[A-Za-z0-9._-]{1,80}")
NUMBERED = re.compile(r"(.+?)\.(\d+)\.(.+)")


def unverified_sentence(family: str) -> str:
    """Sentence for every plan, run and record of a model with ``model.verified: false``."""
    # A hostile record's name must not break out of the page that shows it.
    name = "".join(letter for letter in family if letter.isalnum() or letter in "._-")
    return (f"Family `{name}` is not verified by this project (`model.verified: false`): its mask, numbers and memory "
            "were not compared with a reference; transformers' own class computes it, and losses that balance experts, "
            "where it has some, are not added.")


def said_of_recipe(config: Mapping[str, Any], family: str) -> str:
    """`unverified_sentence` if a recorded recipe asks for an unverified model; else empty."""
    model = config.get("model")
    return unverified_sentence(family) if isinstance(model, Mapping) and model.get("verified") is False else ""


class UnverifiedFamily(Family):
    """The family of one unverified model, made from its shape."""

    def layer_shapes(self, shape: ModelShape, layer: int) -> dict[str, tuple[int, ...]]:
        """Tensors of one layer (from 0), as the files have them."""
        start = f"{self.layer_prefix}.{layer}."
        return {name.removeprefix(start): size for name, size in shape.tensors if name.startswith(start)}

    def outer_shapes(self, shape: ModelShape) -> dict[str, tuple[int, ...]]:
        """Tensors outside of the layers."""
        start = f"{self.layer_prefix}."
        return {name: size for name, size in shape.tensors if not name.startswith(start)}

    def write_config(self, shape: ModelShape) -> dict[str, Any]:
        """The model's own ``config.json``."""
        values: dict[str, Any] = json.loads(shape.config)
        return {key: value for key, value in values.items() if key != MULTIMODAL_TYPE}


@cache
def unverified_family(shape: ModelShape) -> UnverifiedFamily:
    """The family object of one unverified model."""
    config = json.loads(shape.config)
    prefix = layer_prefix((name for name, _ in shape.tensors), shape.layers)
    start = re.compile(re.escape(prefix) + r"\.\d+\.")
    matrices = dict.fromkeys(start.sub("", name).removesuffix(".weight") for name, size in shape.tensors
                             if len(size) == 2 and name.endswith(".weight") and start.match(name))
    refusal = "engine torch: an unverified model is computed by transformers' own class"
    return UnverifiedFamily(
        name=shape.family, model_type=shape.family, architecture=str((config.get("architectures") or [""])[0]),
        layer_prefix=prefix, projections=tuple(name for name in matrices if not name.endswith(NO_PROJECTIONS)),
        residual=(), refusals={"jax": refusal, "tunix": refusal},
        multimodal={config[MULTIMODAL_TYPE]: {}} if MULTIMODAL_TYPE in config else {})


def layer_prefix(names: Iterable[str], layers: int) -> str:
    """Prefix before a layer's number in the names of tensors. Raises `RequestError` if layers are missing."""
    numbers: dict[str, set[int]] = {}
    for name in names:
        if match := NUMBERED.fullmatch(name):
            numbers.setdefault(match[1], set()).add(int(match[2]))
    for prefix, found in numbers.items():
        if len(found) == layers == max(found) + 1:
            return prefix
    raise RequestError(f"the weights lack tensors of {layers} numbered layers", "files as transformers writes them",
                       "load it by `from_pretrained` once, and write it by `save_pretrained`")


def unverified_shape(config: Mapping[str, Any], stored: Mapping[str, tuple[int, ...]]) -> ModelShape:
    """Shape of the text part of a model of no known family; arguments and errors as of `unverified_from_hf`."""
    text_config = config.get("text_config")
    values = dict(config)
    if isinstance(text_config, Mapping):
        of_whole_model = {key: config[key] for key in ("tie_word_embeddings",) if key in config}
        values = of_whole_model | {"model_type": config.get("model_type"), **text_config}
        values |= {"architectures": config.get("architectures", []), MULTIMODAL_TYPE: config.get("model_type")}
    _refuse(values, config)
    kept = {key: value for key, value in values.items() if key not in NOT_KEPT}
    sizes: dict[str, Any] = {}
    for field, keys in SIZES.items():
        sizes[field] = next((kept[key] for key in keys if kept.get(key)), 0)
        if not sizes[field] and field in ("vocab_size", "layers", "width", "heads", "context"):
            raise RequestError(f"config.json lacks {keys[0]}", f"a decoder's config.json, with {' or '.join(keys)}")
    # Defaults as of GPT-2. Only estimates read the width of the feed-forward.
    sizes["kv_heads"] = sizes["kv_heads"] or sizes["heads"]
    sizes["head_dim"] = sizes["head_dim"] or sizes["width"] // sizes["heads"]
    sizes["mlp_width"] = sizes["mlp_width"] or 4 * sizes["width"]
    tensors = text_tensors(stored, tied=values.get("tie_word_embeddings") is True)
    layer_prefix(tensors, sizes["layers"])  # only to refuse missing layers
    return ModelShape(
        family=str(kept["model_type"]), **sizes,
        final_softcap=float(kept.get("final_logit_softcapping") or 0.0),
        attention_softcap=float(kept.get("attn_logit_softcapping") or 0.0),
        tied_embeddings=HEAD not in tensors,
        config=json.dumps(kept, sort_keys=True), tensors=tuple(sorted(tensors.items())))


def text_tensors(stored: Mapping[str, tuple[int, ...]], *, tied: bool) -> dict[str, tuple[int, ...]]:
    """The tensors of the text part, by a text model's names; a second copy of a ``tied`` head is left out."""
    sizes: dict[str, tuple[int, ...]] = {}
    for name, size in stored.items():
        if name.startswith(OTHER_PARTS) or name.endswith(COMPUTED) or (tied and name.endswith(HEAD)):
            continue
        prefix = next((prefix for prefix in OUTER_PREFIXES if name.startswith(prefix)), None)
        if prefix is not None:
            name = name.removeprefix(prefix)
            name = name if name.startswith("lm_head.") else f"model.{name}"
        sizes[name] = size
    return sizes


def _refuse(values: Mapping[str, Any], config: Mapping[str, Any]) -> None:
    """Raise `RequestError` for a ``config.json`` of a model that cannot be trained; ``values``: of its text part."""
    name = values.get("model_type")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise RequestError(f"model_type of config.json cannot be {name!r}", "a complete Hugging Face config.json")
    is_masked = values.get("is_decoder") is False and any(
        "ForMaskedLM" in str(architecture) for architecture in values["architectures"] or ())
    if is_masked or values.get("is_encoder_decoder") or config.get("is_encoder_decoder"):
        kind = "an encoder" if is_masked else "an encoder with a decoder"
        raise RequestError(f"model_type {name} is {kind}",
                           "a causal model: every token from those before it", "another model.id")
    if "quantization_config" in config or "quantization_config" in values:
        raise RequestError("config.json has a quantization_config", "weights in float32, bfloat16 or float16",
                           "the model's unquantized weights; method.name=qlora quantizes them itself")
