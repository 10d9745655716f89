"""Model families. One object knows a family's tensors and ``config.json``; `families` has those of this package.

`Family` itself is the standard decoder: Llama, and every family that differs from it in switches of `ModelShape` only.
Other families derive a class and override methods.

Sizes: V vocabulary, D width, F feed-forward width, N query heads, K key/value heads, H head size.
Matrices are stored ``[out, in]`` and applied as ``x @ W.T``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from workings.errors import RequestError
from workings.models.hf_config import SLIDING, layer_types, read_pattern, read_rotation, require, write_rotation
from workings.models.shape import ModelShape

EMBEDDING = "model.embed_tokens.weight"
FINAL_NORM = "model.norm.weight"
HEAD = "lm_head.weight"
PER_LAYER_EMBEDDING = "model.embed_tokens_per_layer.weight"
"""The table of per-layer embeddings (Gemma 4): ``[V, layers * ModelShape.per_layer_width]``."""
PER_LAYER_PROJECTION = "model.per_layer_model_projection.weight"
PER_LAYER_NORM = "model.per_layer_projection_norm.weight"
LAYER_SCALAR = "layer_scalar"
"""A layer's fixed number (Gemma 4): a buffer in transformers, which no trainer changes."""
PROJECTIONS = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
               "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")
"""Matrices of one layer of the standard decoder, in the order of their use."""
RESIDUAL = ("self_attn.o_proj", "mlp.down_proj")
"""Matrices of the standard decoder that write into the residual stream."""
NEEDED = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
          "max_position_embeddings")
ACTIVATIONS = {"gelu_tanh": "gelu_pytorch_tanh", "silu": "silu"}
"""`ModelShape.activation` -> Hugging Face's name."""


# Compared by identity: its mappings have no hash, and of every family there is one object.
@dataclass(frozen=True, kw_only=True, eq=False)
class Family:
    """A family of decoder-only models."""

    name: str
    """Name in recipes and records."""
    model_type: str
    """Name in ``config.json``, which transformers must know for the PyTorch engine."""
    other_model_types: tuple[str, ...] = ()
    """Further names in ``config.json`` of the same architecture."""
    architecture: str
    """transformers' class, which ``config.json`` names."""
    switches: Mapping[str, Any] = field(default_factory=dict)
    """Fields of `ModelShape` that differ from its defaults, with the values that published models use most."""
    ties_by_default: bool = False
    """Whether a ``config.json`` without ``tie_word_embeddings`` means tied ones."""
    local_rotation: bool = False
    """Whether sliding layers rotate by `ModelShape.local_rope_theta`."""
    needed: tuple[str, ...] = NEEDED
    """Keys that a ``config.json`` must have."""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Settings of ``config.json`` that every model of the family has; another value is refused."""
    multimodal: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """``model_type`` of models with one of this family as ``text_config`` -> defaults of keys that it may leave out."""
    projections: tuple[str, ...] = PROJECTIONS
    """Matrices of one layer, in the order of their use."""
    residual: tuple[str, ...] = RESIDUAL
    """Matrices that write into the residual stream; their random weights are smaller in deeper models."""
    layer_prefix: str = "model.layers"
    """Prefix before a layer's number in the names of tensors."""
    template: str = "tokenizer"
    """The recipe's `data.template` for published chat models of the family."""
    licence: str = ""
    """Terms of the published weights, if all of them have the same."""
    refusals: Mapping[str, str] = field(default_factory=dict)
    """Engine that cannot run the family -> what is expected instead: engine torch, and why."""
    norms_at_one: tuple[str, ...] = ()
    """Ends of the names of norms that multiply by ``weight``, while the others multiply by ``1 + weight``."""
    drawn_vectors: Mapping[str, Callable[[float], float]] = field(default_factory=dict)
    """Random vectors: end of the name -> function from a uniform number in [0, 1) to an initial value."""
    frozen: tuple[str, ...] = ()
    """Ends of the names of tensors that no method trains."""

    def check(self, shape: ModelShape) -> None:
        """Raise `RequestError` for sizes that the family cannot have."""
        if shape.verified and shape.head_dim % 2:
            raise RequestError(f"head_dim is odd: {shape.head_dim}", "an even number: rotary embeddings turn pairs")

    def scratch_switches(self, heads: int, head_dim: int) -> dict[str, Any]:
        """`switches` of a model from scratch with this many query heads of this size."""
        return dict(self.switches)

    def with_small_windows(self, shape: ModelShape) -> ModelShape:
        """A small model's shape, changed so that rows of a few dozen tokens use every feature of the family."""
        return replace(shape, sliding_window=16, sliding_pattern=2) if shape.sliding_pattern else shape

    def check_engine(self, engine: str, shape: ModelShape) -> None:
        """Raise `RequestError` for an engine that cannot run the family, or not at these sizes."""
        if engine in self.refusals:
            raise RequestError(f"engine: {engine} cannot train a {self.name} model", self.refusals[engine],
                               "engine=torch")

    def layer_shapes(self, shape: ModelShape, layer: int) -> dict[str, tuple[int, ...]]:
        """Tensors of one layer (from 0): name below `layer_prefix` and number -> shape."""
        width, inner, head = shape.width, shape.mlp_width_of(layer), shape.head_dim_of(layer)
        query, key = shape.heads * head, shape.kv_heads_of(layer) * head
        shapes: dict[str, tuple[int, ...]] = {
            "input_layernorm.weight": (width,),
            "self_attn.q_proj.weight": (query, width),
            "self_attn.k_proj.weight": (key, width),
            "self_attn.v_proj.weight": (key, width),
            "self_attn.o_proj.weight": (width, query),
            "post_attention_layernorm.weight": (width,),
            "mlp.gate_proj.weight": (inner, width),
            "mlp.up_proj.weight": (inner, width),
            "mlp.down_proj.weight": (width, inner)}
        if shape.qkv_bias:
            shapes |= {"self_attn.q_proj.bias": (query,), "self_attn.k_proj.bias": (key,),
                       "self_attn.v_proj.bias": (key,)}
        if shape.qk_norm:
            shapes["self_attn.q_norm.weight"] = (query if shape.qk_norm_whole else head,)
            shapes["self_attn.k_norm.weight"] = (key if shape.qk_norm_whole else head,)
        # Only then `post_attention_layernorm` is a norm after attention.
        if shape.post_norms:
            shapes |= {f"{side}_feedforward_layernorm.weight": (width,) for side in ("pre", "post")}
        if not shape.pre_norms:
            del shapes["input_layernorm.weight"], shapes["pre_feedforward_layernorm.weight"]
        return shapes

    def outer_shapes(self, shape: ModelShape) -> dict[str, tuple[int, ...]]:
        """Tensors outside the layers: name -> shape. Tied embeddings have no head."""
        shapes: dict[str, tuple[int, ...]] = {EMBEDDING: (shape.vocab_size, shape.width), FINAL_NORM: (shape.width,)}
        if not shape.tied_embeddings:
            shapes[HEAD] = (shape.vocab_size, shape.width)
        return shapes

    def read_config(self, config: Mapping[str, Any]) -> ModelShape:
        """Shape by the content of ``config.json``. Raises `RequestError` for what is absent or computed differently."""
        # A fixed key may be null; `check_fixed` looks at its value.
        require(config, tuple(key for key in self.needed if not (key in self.fixed and key in config)))
        if (config.get("attention_bias") and not self.switches.get("qkv_bias")) or config.get("mlp_bias"):
            raise RequestError("attention_bias or mlp_bias is true", "a model without these biases")
        self.check_fixed(config)
        self.check_activation(config)
        heads, width = int(config["num_attention_heads"]), int(config["hidden_size"])
        sizes = {
            "vocab_size": int(config["vocab_size"]), "layers": int(config["num_hidden_layers"]), "width": width,
            "mlp_width": int(config["intermediate_size"]), "heads": heads,
            # Older files have neither of these keys.
            "head_dim": int(config.get("head_dim") or width // heads),
            "kv_heads": int(config.get("num_key_value_heads") or heads),
            "context": int(config["max_position_embeddings"]),
            "rms_norm_eps": float(config.get("rms_norm_eps", 1e-6)),
            "tied_embeddings": bool(config.get("tie_word_embeddings", self.ties_by_default))}
        values = dict(self.switches) | read_rotation(config) | self.read_attention(config) | sizes
        return ModelShape(family=self.name, **values)

    def check_fixed(self, config: Mapping[str, Any]) -> None:
        """Raise `RequestError` for a setting that no model of the family has."""
        if other := [f"{key}: {config[key]}" for key, value in self.fixed.items() if config.get(key, value) != value]:
            raise RequestError(f"a {self.name} model cannot have {', '.join(other)}",
                               ", ".join(f"{key}: {value}" for key, value in self.fixed.items()))

    def check_activation(self, config: Mapping[str, Any]) -> None:
        """Raise `RequestError` for another activation than the family's. Older Gemma files say `gelu` for its own."""
        activation = str(self.switches.get("activation", "gelu_tanh"))
        names = (None, ACTIVATIONS[activation], activation.partition("_")[0])
        for key in ("hidden_activation", "hidden_act"):
            if config.get(key) not in names:
                raise RequestError(f"a {self.name} model cannot have {key}: {str(config[key])[:80]}",
                                   f"{key}: {ACTIVATIONS[activation]}")

    def read_attention(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Fields of `ModelShape` that say what attention sees and how scores are scaled."""
        if "sliding_pattern" in self.switches:
            usual = config.get("sliding_window_pattern") or self.switches["sliding_pattern"]
            pattern = read_pattern(config, SLIDING, "sliding_pattern", usual,
                                   last_global=self.switches.get("last_layer_global", False))
            return {"sliding_window": int(config["sliding_window"])} | pattern
        if config.get("use_sliding_window"):
            raise RequestError(f"a {self.name} model cannot have use_sliding_window: true",
                               "a model without sliding windows")
        return {}

    def write_config(self, shape: ModelShape) -> dict[str, Any]:
        """Content of a ``config.json`` that transformers opens as this very model."""
        activation = ACTIVATIONS[shape.activation]
        return {
            "architectures": [self.architecture], "model_type": self.model_type, "vocab_size": shape.vocab_size,
            "hidden_size": shape.width, "intermediate_size": shape.mlp_width, "num_hidden_layers": shape.layers,
            "num_attention_heads": shape.heads, "num_key_value_heads": shape.kv_heads, "head_dim": shape.head_dim,
            "max_position_embeddings": shape.context, "rms_norm_eps": shape.rms_norm_eps,
            "rope_theta": shape.rope_theta, "tie_word_embeddings": shape.tied_embeddings,
            # Qwen 2 has such biases, but no key for them.
            **({} if shape.qkv_bias else {"attention_bias": False}),
            # transformers' classes read either the first key (Llama) or the second (Gemma 2 and 3).
            "hidden_act": activation, "hidden_activation": activation,
            **self.fixed, **self.write_attention(shape), **write_rotation(shape)}

    def write_attention(self, shape: ModelShape) -> dict[str, Any]:
        """The settings that `read_attention` reads."""
        if "sliding_pattern" not in self.switches:
            return {}
        return {"sliding_window": shape.sliding_window, "layer_types": layer_types(shape)}
