"""Qwen 3.5, text: of four layers three keep a state instead of keys and values (gated DeltaNet), the fourth attends.

A layer with a state reads a row from its first token on: what it gives at a token depends on all tokens before, without
a mask that could leave some out. So rows are not packed, and prompts that are answered together are of one length.
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
"""Bounds of a state's first step sizes (Mamba 2, from which gated DeltaNet has them)."""


def _decay(drawn: float) -> float:
    """First ``A_log`` of a head: the rates that are drawn are between 1 and 16."""
    # `A_log` is the logarithm of the rate, so that training keeps the rate above zero.
    return log(1.0 + 15.0 * drawn)


def _step_bias(drawn: float) -> float:
    """First ``dt_bias`` of a head: what softplus turns into a step size, drawn evenly on a scale of logarithms."""
    low, high = map(log, STEP_SIZES)
    step = exp(low + (high - low) * drawn)
    # The inverse of softplus, log(exp(step) - 1), written so that a small step keeps its digits.
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
        """Switches as in the published models: a state's values are as wide as the queries, in heads half as large."""
        return dict(self.switches) | {"linear_key_heads": 2 * heads, "linear_value_heads": 2 * heads,
                                      "linear_key_head_dim": head_dim // 2, "linear_value_head_dim": head_dim // 2}

    def with_small_windows(self, shape: ModelShape) -> ModelShape:
        """A shape with one sequence of the layer pattern, and fewer heads for keys than for values."""
        return replace(shape, layers=shape.linear_pattern, linear_key_heads=shape.linear_value_heads // 2)

    def layer_shapes(self, shape: ModelShape, layer: int) -> dict[str, tuple[int, ...]]:
        """Tensors of one layer: with a state, or with queries that come with a gate."""
        shapes = super().layer_shapes(shape, layer)
        if not shape.is_linear(layer):
            # Each head's queries, then its gate.
            query, width = shapes["self_attn.q_proj.weight"]
            return shapes | {"self_attn.q_proj.weight": (2 * query, width)}
        shapes = {name: size for name, size in shapes.items() if not name.startswith("self_attn.")}
        heads, width = shape.linear_value_heads, shape.width
        values = heads * shape.linear_value_head_dim
        mixed = 2 * shape.linear_key_heads * shape.linear_key_head_dim + values  # queries, keys, values
        return shapes | {
            "linear_attn.in_proj_qkv.weight": (mixed, width), "linear_attn.in_proj_z.weight": (values, width),
            "linear_attn.in_proj_b.weight": (heads, width), "linear_attn.in_proj_a.weight": (heads, width),
            "linear_attn.conv1d.weight": (mixed, 1, shape.linear_conv_kernel),
            "linear_attn.A_log": (heads,), "linear_attn.dt_bias": (heads,),
            "linear_attn.norm.weight": (shape.linear_value_head_dim,),
            "linear_attn.out_proj.weight": (width, values)}

    def read_config(self, config: Mapping[str, Any]) -> ModelShape:
        """Shape of a model from the content of its ``config.json``; what it leaves out has transformers' default."""
        return super().read_config({**self.multimodal["qwen3_5"], **config})

    def read_attention(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """The pattern of layers, the sizes of a state, and the part of each head that is turned."""
        rotation = config.get("rope_parameters") or {}
        if (kind := rotation.get("rope_type", "default")) != "default" or config.get("rope_scaling"):
            raise RequestError(f"a {self.name} model cannot have rope scaling of type {kind!r}", "none")
        usual = config.get("full_attention_interval") or self.switches["linear_pattern"]
        return {**read_pattern(config, LINEAR, "linear_pattern", usual),
                **{ours: int(config[theirs]) for theirs, ours in CONFIG_SIZES.items()},
                "rotated_part": float(rotation.get("partial_rotary_factor", config.get("partial_rotary_factor", 0.25)))}

    def write_attention(self, shape: ModelShape) -> dict[str, Any]:
        """The family's ``config.json``."""
        return {"layer_types": layer_types(shape), **{theirs: getattr(shape, ours)
                                                      for theirs, ours in CONFIG_SIZES.items()},
                # Of text all three axes of a position are one, so that sections of the rotation need no mention.
                "rope_parameters": {"rope_type": "default", "rope_theta": shape.rope_theta,
                                    "partial_rotary_factor": shape.rotated_part}}


_ELSEWHERE = "engine torch: layers with a state run by transformers' own class alone"
FAMILY = Qwen35(
    name="qwen3_5", model_type="qwen3_5_text", architecture="Qwen3_5ForCausalLM", licence="Apache License 2.0",
    needed=(*NEEDED, *CONFIG_SIZES), fixed={"attn_output_gate": True},
    # transformers' defaults of the text part: what it writes leaves out what equals them.
    multimodal={"qwen3_5": {
        "model_type": "qwen3_5_text", "vocab_size": 248_320, "hidden_size": 4096, "intermediate_size": 12_288,
        "num_hidden_layers": 32, "num_attention_heads": 16, "num_key_value_heads": 4, "head_dim": 256,
        "max_position_embeddings": 32_768, "linear_num_key_heads": 16, "linear_num_value_heads": 32,
        "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4}},
    projections=("linear_attn.in_proj_qkv", "linear_attn.in_proj_z", "linear_attn.out_proj", *PROJECTIONS),
    residual=("linear_attn.out_proj", *RESIDUAL), norms_at_one=("linear_attn.norm.weight",),
    drawn_vectors={"linear_attn.A_log": _decay, "linear_attn.dt_bias": _step_bias},
    refusals={"jax": _ELSEWHERE, "tunix": _ELSEWHERE},
    switches={"activation": "silu", "scaled_embeddings": False, "norm_rounds_once": True, "qk_norm": True,
              "rope_theta": 10_000_000.0, "rotated_part": 0.25, "linear_pattern": 4, "linear_conv_kernel": 4,
              "linear_key_heads": 16, "linear_value_heads": 16, "linear_key_head_dim": 128,
              "linear_value_head_dim": 128})
