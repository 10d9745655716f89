"""Qwen 3.5's text model: three of four layers keep a linear state instead of keys and values (gated DeltaNet).

A state depends on all tokens before, whatever a mask says. So rows are not packed, and prompts that are answered
together have one length.
"""

from collections.abc import Mapping
from dataclasses import replace
from math import exp, expm1, log
from typing import Any

from workings.errors import RequestError
from workings.models.family import NEEDED, PROJECTIONS, RESIDUAL, Family
from workings.models.hf_config import LINEAR, layer_types, read_pattern
from workings.models.shape import ModelShape

CONFIG_SIZES = {"linear_num_key_heads": "linear_key_heads", "linear_num_value_heads": "linear_value_heads",
                "linear_key_head_dim": "linear_key_head_dim", "linear_value_head_dim": "linear_value_head_dim",
                "linear_conv_kernel_dim": "linear_conv_kernel"}
"""``config.json``'s names of the sizes of a state -> those of `ModelShape`."""
STEP_SIZES = (1e-3, 0.1)
"""Bounds of a state's initial step sizes, as in Mamba 2."""


def _initial_a_log(uniform: float) -> float:
    """Initial ``A_log`` of a head: the logarithm of a decay rate between 1 and 16."""
    return log(1.0 + 15.0 * uniform)


def _initial_dt_bias(uniform: float) -> float:
    """Initial ``dt_bias`` of a head: its softplus is a step size that is uniform on a logarithmic scale."""
    low, high = map(log, STEP_SIZES)
    step = exp(low + (high - low) * uniform)
    # The inverse of softplus, log(exp(step) - 1), in a form that is exact for small steps.
    return step + log(-expm1(-step))


class Qwen35(Family):
    """Qwen 3.5's tensors and configuration."""

    def check(self, shape: ModelShape) -> None:
        """Raise `RequestError` for sizes that a Qwen 3.5 cannot have."""
        super().check(shape)
        # Without an attending layer no token could look up a single earlier one.
        if all(shape.is_linear(layer) for layer in range(shape.layers)):
            raise RequestError(f"layers cannot be {shape.layers} in a {self.name} model",
                               f"at least one layer that attends: every {shape.linear_pattern}th does",
                               f"layers: {shape.linear_pattern}")
        if shape.linear_value_heads % shape.linear_key_heads:
            raise RequestError(f"linear_num_value_heads ({shape.linear_value_heads}) must be a multiple of "
                               f"linear_num_key_heads ({shape.linear_key_heads})", "a divisor")
        if shape.head_dim * shape.rotated_part % 2:
            raise RequestError(f"head_dim cannot be {shape.head_dim} in a {self.name} model",
                               f"{shape.rotated_part:g} of it to be even: rotary embeddings turn pairs", "head_dim: 8")

    def scratch_switches(self, heads: int, head_dim: int) -> dict[str, Any]:
        """Switches with a state as in the published models: twice as many heads as queries, of half their size."""
        return dict(self.switches) | {"linear_key_heads": 2 * heads, "linear_value_heads": 2 * heads,
                                      "linear_key_head_dim": head_dim // 2, "linear_value_head_dim": head_dim // 2}

    def with_small_windows(self, shape: ModelShape) -> ModelShape:
        """One repetition of the layer pattern, and fewer heads for keys than for values."""
        return replace(shape, layers=shape.linear_pattern, linear_key_heads=shape.linear_value_heads // 2)

    def layer_shapes(self, shape: ModelShape, layer: int) -> dict[str, tuple[int, ...]]:
        """Tensors of one layer: with a state, or with queries and a gate."""
        shapes = super().layer_shapes(shape, layer)
        if not shape.is_linear(layer):
            query, width = shapes["self_attn.q_proj.weight"]
            return shapes | {"self_attn.q_proj.weight": (2 * query, width)}  # each head's queries, then its gate
        shapes = {name: size for name, size in shapes.items() if not name.startswith("self_attn.")}
        heads, width = shape.linear_value_heads, shape.width
        values = heads * shape.linear_value_head_dim
        qkv = 2 * shape.linear_key_heads * shape.linear_key_head_dim + values
        return shapes | {
            "linear_attn.in_proj_qkv.weight": (qkv, width), "linear_attn.in_proj_z.weight": (values, width),
            "linear_attn.in_proj_b.weight": (heads, width), "linear_attn.in_proj_a.weight": (heads, width),
            "linear_attn.conv1d.weight": (qkv, 1, shape.linear_conv_kernel),
            "linear_attn.A_log": (heads,), "linear_attn.dt_bias": (heads,),
            "linear_attn.norm.weight": (shape.linear_value_head_dim,),
            "linear_attn.out_proj.weight": (width, values)}

    def read_config(self, config: Mapping[str, Any]) -> ModelShape:
        """Shape by the content of ``config.json``; keys that it leaves out have transformers' defaults."""
        return super().read_config({**self.multimodal["qwen3_5"], **config})

    def read_attention(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """The pattern of layers, the sizes of a state, and the part of each head that is rotated."""
        rotation = config.get("rope_parameters") or {}
        kind = rotation.get("rope_type", "default")
        if kind != "default" or config.get("rope_scaling"):
            raise RequestError(f"a {self.name} model cannot have rope scaling of type {kind!r}", "none")
        usual = config.get("full_attention_interval") or self.switches["linear_pattern"]
        rotated_part = rotation.get("partial_rotary_factor", config.get("partial_rotary_factor", 0.25))
        sizes = {field: int(config[key]) for key, field in CONFIG_SIZES.items()}
        return read_pattern(config, LINEAR, "linear_pattern", usual) | sizes | {"rotated_part": float(rotated_part)}

    def write_attention(self, shape: ModelShape) -> dict[str, Any]:
        """The settings that `read_attention` reads."""
        sizes = {key: getattr(shape, field) for key, field in CONFIG_SIZES.items()}
        return {"layer_types": layer_types(shape), **sizes,
                "rope_parameters": {"rope_type": "default", "rope_theta": shape.rope_theta,
                                    "partial_rotary_factor": shape.rotated_part}}


_ELSEWHERE = "engine torch: layers with a state run by transformers' own class alone"
FAMILY = Qwen35(
    name="qwen3_5", model_type="qwen3_5_text", architecture="Qwen3_5ForCausalLM", licence="Apache License 2.0",
    needed=(*NEEDED, *CONFIG_SIZES), fixed={"attn_output_gate": True},
    # transformers' defaults, which its files leave out.
    multimodal={"qwen3_5": {
        "model_type": "qwen3_5_text", "vocab_size": 248_320, "hidden_size": 4096, "intermediate_size": 12_288,
        "num_hidden_layers": 32, "num_attention_heads": 16, "num_key_value_heads": 4, "head_dim": 256,
        "max_position_embeddings": 32_768, "linear_num_key_heads": 16, "linear_num_value_heads": 32,
        "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4}},
    projections=("linear_attn.in_proj_qkv", "linear_attn.in_proj_z", "linear_attn.out_proj", *PROJECTIONS),
    residual=("linear_attn.out_proj", *RESIDUAL), norms_at_one=("linear_attn.norm.weight",),
    drawn_vectors={"linear_attn.A_log": _initial_a_log, "linear_attn.dt_bias": _initial_dt_bias},
    refusals={"jax": _ELSEWHERE, "tunix": _ELSEWHERE},
    switches={"activation": "silu", "scaled_embeddings": False, "norm_rounds_once": True, "qk_norm": True,
              "rope_theta": 10_000_000.0, "rotated_part": 0.25, "linear_pattern": 4, "linear_conv_kernel": 4,
              "linear_key_heads": 16, "linear_value_heads": 16, "linear_key_head_dim": 128,
              "linear_value_head_dim": 128})
