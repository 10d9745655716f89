"""Gemma 4's text model, whose layers differ in their tensors.

- Global layers have wider and fewer heads, and in the larger models no values of their own.
- The last layers of E2B and E4B have neither keys nor values.
- E2B and E4B have per-layer embeddings: a second table gives each token a few numbers for each layer.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from workings.errors import RequestError
from workings.models import family as names
from workings.models.family import NEEDED, Family
from workings.models.hf_config import MAX_VALUE
from workings.models.shape import ModelShape

WITHOUT_EXPERTS = ("jax", "tunix")
"""Engines that have no experts."""


def _of_global_layers(config: Mapping[str, Any], key: str, earlier_key: str) -> int:
    """A size of the global layers; 0: that of the others. Raises `RequestError` if they have different sizes.

    transformers writes ``key`` into `per_layer_config` since 5.15. Published models have ``earlier_key``.
    """
    per_layer = config.get("per_layer_config")
    if per_layer is None:
        return int(config.get(earlier_key) or 0)
    kinds = config.get("layer_types") or ()
    global_layers = {str(number) for number, kind in enumerate(kinds) if kind == "full_attention"}
    sizes = []
    if isinstance(per_layer, Mapping) and set(per_layer) == global_layers:
        sizes = [layer.get(key, 0) for layer in per_layer.values() if isinstance(layer, Mapping)]
    is_one_size = len(set(map(repr, sizes))) == 1
    if not is_one_size or type(sizes[0]) is not int or not 0 <= sizes[0] <= MAX_VALUE:
        raise RequestError(f"per_layer_config cannot be {str(per_layer)[:80]}",
                           f"one {key} for all full_attention layers of layer_types, and for no other")
    return sizes[0]


class Gemma4(Family):
    """Gemma 4's tensors and configuration."""

    def check(self, shape: ModelShape) -> None:
        """Raise `RequestError` for sizes that a Gemma 4 cannot have."""
        super().check(shape)
        # The last layers attend to the keys of an earlier layer of the same kind.
        first_shared = shape.layers - shape.shared_kv_layers
        kinds_with_keys = {shape.slides(i) for i in range(first_shared)}
        for layer in range(max(0, first_shared), shape.layers):
            if shape.slides(layer) not in kinds_with_keys:
                raise RequestError(f"shared_kv_layers cannot be {shape.shared_kv_layers} of {shape.layers}",
                                   f"before them a layer of the kind of layer {layer} with its own keys and values",
                                   "fewer shared_kv_layers")
        if shape.slides(shape.layers - 1):
            raise RequestError(f"the last layer ({shape.layers - 1}) of a gemma4 model must not slide",
                               "a global one: transformers takes it for one, regardless of what config.json says")
        if shape.heads % shape.kv_heads_of(shape.layers - 1):
            raise RequestError(f"heads ({shape.heads}) must be a multiple of global_kv_heads ({shape.global_kv_heads})",
                               "a divisor")

    def with_small_windows(self, shape: ModelShape) -> ModelShape:
        """A sliding and a global layer with keys, then one of each without; per-layer embeddings."""
        return replace(super().with_small_windows(shape), layers=4, shared_kv_layers=2,
                       shared_mlp_width=2 * shape.mlp_width, global_head_dim=2 * shape.head_dim, per_layer_width=16)

    def check_engine(self, engine: str, shape: ModelShape) -> None:
        """Raise `RequestError` also for an engine that has no experts, if the model has some."""
        super().check_engine(engine, shape)
        if shape.experts and engine in WITHOUT_EXPERTS:
            raise RequestError(f"engine: {engine} cannot train a {self.name} model with experts",
                               "an engine that trains experts by transformers' own class", "engine=torch")

    def layer_shapes(self, shape: ModelShape, layer: int) -> dict[str, tuple[int, ...]]:
        """Tensors of one layer."""
        shapes = super().layer_shapes(shape, layer)
        width = shape.width
        if shape.shares_keys(layer):
            for name in ("self_attn.k_proj.weight", "self_attn.v_proj.weight", "self_attn.k_norm.weight"):
                shapes.pop(name, None)
        elif shape.keys_as_values and not shape.slides(layer):
            del shapes["self_attn.v_proj.weight"]
        shapes[names.LAYER_SCALAR] = (1,)
        if shape.per_layer_width:
            shapes |= {"per_layer_input_gate.weight": (shape.per_layer_width, width),
                       "per_layer_projection.weight": (width, shape.per_layer_width),
                       "post_per_layer_input_norm.weight": (width,)}
        if shape.experts:
            shapes |= {"router.proj.weight": (shape.experts, width), "router.scale": (width,),
                       "router.per_expert_scale": (shape.experts,),
                       "experts.gate_up_proj": (shape.experts, 2 * shape.expert_width, width),
                       "experts.down_proj": (shape.experts, width, shape.expert_width),
                       "post_feedforward_layernorm_1.weight": (width,),
                       "post_feedforward_layernorm_2.weight": (width,),
                       "pre_feedforward_layernorm_2.weight": (width,)}
        return shapes

    def outer_shapes(self, shape: ModelShape) -> dict[str, tuple[int, ...]]:
        """Tensors outside the layers; with per-layer embeddings their table, a projection and a norm."""
        shapes = super().outer_shapes(shape)
        if shape.per_layer_width:
            packed = shape.layers * shape.per_layer_width
            shapes |= {names.PER_LAYER_EMBEDDING: (shape.vocab_size, packed),
                       names.PER_LAYER_PROJECTION: (packed, shape.width),
                       names.PER_LAYER_NORM: (shape.per_layer_width,)}
        return shapes

    def read_attention(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Kinds of layers and what differs between them, per-layer embeddings, and experts."""
        # "vision" only lets tokens of images see each other.
        if config.get("use_bidirectional_attention") == "all":
            raise RequestError("use_bidirectional_attention cannot be all",
                               "a model in which no token sees what follows it")
        own_table = config.get("vocab_size_per_layer_input", config["vocab_size"])
        if config.get("hidden_size_per_layer_input") and own_table != config["vocab_size"]:
            raise RequestError(f"vocab_size_per_layer_input ({own_table}) must be vocab_size ({config['vocab_size']})",
                               "per-layer embeddings for every token of the vocabulary")
        shared, as_values = int(config.get("num_kv_shared_layers") or 0), bool(config.get("attention_k_eq_v"))
        double_width = shared and config.get("use_double_wide_mlp")
        experts = config if config.get("enable_moe_block") else {}
        return super().read_attention(config) | {
            "final_softcap": float(config.get("final_logit_softcapping") or 0.0),
            "global_head_dim": _of_global_layers(config, "head_dim", "global_head_dim"),
            # transformers reads this number only where values are keys.
            "global_kv_heads": _of_global_layers(config, "num_key_value_heads", "num_global_key_value_heads")
            if as_values else 0,
            "keys_as_values": as_values, "shared_kv_layers": shared,
            "shared_mlp_width": 2 * int(config["intermediate_size"]) if double_width else 0,
            "per_layer_width": int(config.get("hidden_size_per_layer_input") or 0),
            "experts": int(experts.get("num_experts") or 0),
            "experts_per_token": int(experts.get("top_k_experts") or 0),
            "expert_width": int(experts.get("moe_intermediate_size") or 0)}

    def write_config(self, shape: ModelShape) -> dict[str, Any]:
        """Content of a ``config.json`` that transformers opens as this very model's text part."""
        config = {name: value for name, value in super().write_config(shape).items()
                  if name not in ("rope_theta", "rope_scaling", "hidden_act")}
        return config | {
            "final_logit_softcapping": shape.final_softcap or None,  # a cap of 0 would divide by zero
            # Always written, because transformers' default is 512.
            "global_head_dim": shape.global_head_dim or shape.head_dim,
            "attention_k_eq_v": shape.keys_as_values,
            "num_global_key_value_heads": shape.global_kv_heads or shape.kv_heads,
            "num_kv_shared_layers": shape.shared_kv_layers,
            "use_double_wide_mlp": bool(shape.shared_mlp_width),
            "hidden_size_per_layer_input": shape.per_layer_width, "vocab_size_per_layer_input": shape.vocab_size,
            "enable_moe_block": bool(shape.experts), "num_experts": shape.experts or None,
            "top_k_experts": shape.experts_per_token or None, "moe_intermediate_size": shape.expert_width or None,
            "rope_parameters": {
                "sliding_attention": {"rope_type": "default", "rope_theta": shape.local_rope_theta},
                "full_attention": {"rope_type": "proportional", "rope_theta": shape.rope_theta,
                                   "partial_rotary_factor": shape.rotated_part,
                                   **({"factor": shape.rope_scaling} if shape.rope_scaling != 1.0 else {})}}}


FAMILY = Gemma4(
    name="gemma4", model_type="gemma4_text", architecture="Gemma4ForCausalLM", ties_by_default=True,
    template="gemma4", licence="Apache License 2.0", local_rotation=True,
    needed=(*NEEDED, "num_key_value_heads", "head_dim", "sliding_window"),
    fixed={"attention_bias": False},
    other_model_types=("gemma4_unified_text",),  # of the 12B model
    multimodal={"gemma4": {"model_type": "gemma4_text"}, "gemma4_unified": {"model_type": "gemma4_text"}},
    frozen=(names.LAYER_SCALAR, names.PER_LAYER_EMBEDDING),
    switches={"norm_plus_one": False, "norm_rounds_once": True, "post_norms": True, "qk_norm": True, "value_norm": True,
              "query_scale": 1.0, "rope_theta": 1_000_000.0, "local_rope_theta": 10_000.0, "rotated_part": 0.25,
              "sliding_window": 512, "sliding_pattern": 6, "last_layer_global": True, "final_softcap": 30.0,
              "layer_scalar": True})
