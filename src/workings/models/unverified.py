"""Models outside of this package's families (`model.verified: false`): transformers' own class computes them.

Such a model is described by two things: its ``config.json``, which the shape and so the record hold whole, and the
headers of its weight files, which give names and sizes of tensors without any ML library. Nothing here was compared
with a reference; `unverified_sentence` states this in every run and plan.
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
"""Prefixes of the names of a text part in files of a multimodal model."""
OTHER_PARTS = ("visual.", "model.visual.", "vision_tower.", "model.vision_tower.", "audio_tower.", "model.audio_tower.",
               "multi_modal_projector.", "model.multi_modal_projector.", "mtp.", "model.mtp.")
"""Prefixes of tensors that a text model does not have: vision, audio, and heads that predict several tokens."""
COMPUTED = ("rotary_emb.inv_freq", "attention.bias", "attention.masked_bias")
"""Ends of the names of tensors in older files that transformers computes instead of reading."""
NOT_KEPT = ("_name_or_path", "auto_map", "dtype", "torch_dtype", "transformers_version", "quantization_config",
            "vision_config", "audio_config", "text_config")
"""Keys of a ``config.json`` that do not say which model it is."""
MULTIMODAL_TYPE = "workings_text_part_of"
"""Key that is kept next to those of a text part: ``model_type`` of the model that also sees or hears."""
NO_PROJECTIONS = ("norm", "layernorm", "router", "wte", "embeddings", "bias")
"""Ends of the names of matrices that are not linear layers."""
NAME = re.compile(r"[A-Za-z0-9._-]{1,80}")
NUMBERED = re.compile(r"(.+?)\.(\d+)\.(.+)")


def unverified_sentence(family: str) -> str:
    """Sentence for every plan, run and record of a model with ``model.verified: false``."""
    # A record may be hostile: its name must not break out of the page that shows it.
    name = "".join(letter for letter in family if letter.isalnum() or letter in "._-")
    return (f"Family `{name}` is not verified by this project (`model.verified: false`): its mask, numbers and memory "
            "were not compared with a reference; transformers' own class computes it, and losses that balance experts, "
            "where it has some, are not added.")


def said_of_recipe(config: Mapping[str, Any], family: str) -> str:
    """`unverified_sentence` where a recorded recipe, with all its keys, asks for an unverified model; else empty."""
    model = config.get("model")
    return unverified_sentence(family) if isinstance(model, Mapping) and model.get("verified") is False else ""


class UnverifiedFamily(Family):
    """Family object of an unverified model, which follows from its shape."""

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
    # A dict keeps the order of the files and drops what layers repeat.
    matrices = dict.fromkeys(start.sub("", name).removesuffix(".weight") for name, size in shape.tensors
                             if len(size) == 2 and name.endswith(".weight") and start.match(name))
    refusal = "engine torch: an unverified model is computed by transformers' own class"
    return UnverifiedFamily(
        name=shape.family, model_type=shape.family, architecture=str((config.get("architectures") or [""])[0]),
        layer_prefix=prefix, projections=tuple(name for name in matrices if not name.endswith(NO_PROJECTIONS)),
        residual=(), refusals={"jax": refusal, "tunix": refusal},
        multimodal={config[MULTIMODAL_TYPE]: {}} if MULTIMODAL_TYPE in config else {})


def layer_prefix(names: Iterable[str], layers: int) -> str:
    """Prefix before a layer's number in the names of tensors. Raises `RequestError` if no list of them is complete."""
    numbers: dict[str, set[int]] = {}
    for name in names:
        if match := NUMBERED.fullmatch(name):
            numbers.setdefault(match[1], set()).add(int(match[2]))
    # Compared without a set of that size: the number may be anything that a file says.
    complete = [prefix for prefix, there in numbers.items() if len(there) == layers == max(there) + 1]
    if not complete:
        raise RequestError(f"the weights lack tensors of {layers} numbered layers", "files as transformers writes them",
                           "load it by `from_pretrained` once, and write it by `save_pretrained`")
    return complete[0]


def unverified_shape(config: Mapping[str, Any], stored: Mapping[str, tuple[int, ...]]) -> ModelShape:
    """The shape of a model of no known family, of its text part; arguments and errors as of `unverified_from_hf`."""
    text = config.get("text_config")
    values = dict(config)
    if isinstance(text, Mapping):
        # The outer file says of the head whether it is the embedding.
        outer = {key: config[key] for key in ("tie_word_embeddings",) if key in config}
        values = outer | {"model_type": config.get("model_type"), **text}
        values |= {"architectures": config.get("architectures", []), MULTIMODAL_TYPE: config.get("model_type")}
    _refuse(values, config)
    kept = {key: value for key, value in values.items() if key not in NOT_KEPT}
    sizes: dict[str, Any] = {
        field: next((kept[key] for key in keys if kept.get(key)), 0) for field, keys in SIZES.items()}
    if missing := [SIZES[field] for field in ("vocab_size", "layers", "width", "heads", "context") if not sizes[field]]:
        keys = missing[0]
        raise RequestError(f"config.json lacks {keys[0]}", f"a decoder's config.json, with {' or '.join(keys)}")
    # Without a key they are GPT-2's; only estimates read the width of the feed-forward.
    sizes["kv_heads"] = sizes["kv_heads"] or sizes["heads"]
    sizes["head_dim"] = sizes["head_dim"] or sizes["width"] // sizes["heads"]
    sizes["mlp_width"] = sizes["mlp_width"] or 4 * sizes["width"]
    tensors = text_tensors(stored, tied=values.get("tie_word_embeddings") is True)
    made = ModelShape(
        family=str(kept["model_type"]), **sizes,
        final_softcap=float(kept.get("final_logit_softcapping") or 0.0),
        attention_softcap=float(kept.get("attn_logit_softcapping") or 0.0),
        tied_embeddings=HEAD not in tensors,
        # Sorted, so that the same files give the same shape; as tuples, so that it has a hash.
        config=json.dumps(kept, sort_keys=True), tensors=tuple(sorted(tensors.items())))
    layer_prefix(tensors, made.layers)
    return made


def text_tensors(stored: Mapping[str, tuple[int, ...]], *, tied: bool) -> dict[str, tuple[int, ...]]:
    """The tensors of the text part, by a text model's names; a second copy of a ``tied`` head is left out."""
    sizes: dict[str, tuple[int, ...]] = {}
    for name, size in stored.items():
        if name.startswith(OTHER_PARTS) or name.endswith(COMPUTED) or (tied and name.endswith(HEAD)):
            continue
        outer = next((prefix for prefix in OUTER_PREFIXES if name.startswith(prefix)), "")
        inner = name.removeprefix(outer)
        sizes[inner if not outer or inner.startswith("lm_head.") else f"model.{inner}"] = size
    return sizes


def _refuse(values: Mapping[str, Any], config: Mapping[str, Any]) -> None:
    """Raise `RequestError` for what cannot be trained, as far as ``config.json`` says it."""
    name = values.get("model_type")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise RequestError(f"model_type of config.json cannot be {name!r}", "a complete Hugging Face config.json")
    masked = values.get("is_decoder") is False and any("ForMaskedLM" in str(x) for x in values["architectures"] or ())
    if masked or values.get("is_encoder_decoder") or config.get("is_encoder_decoder"):
        raise RequestError(f"model_type {name} is an encoder{'' if masked else ' with a decoder'}",
                           "a causal model: every token from those before it", "another model.id")
    if "quantization_config" in config or "quantization_config" in values:
        raise RequestError("config.json has a quantization_config", "weights in float32, bfloat16 or float16",
                           "the model's unquantized weights; method.name=qlora quantizes them itself")
