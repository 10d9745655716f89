"""How each family is written as a GGUF file. `families` also reads some of them."""

from collections.abc import Mapping
from math import log
from typing import Any

import numpy as np

from workings.errors import RequestError
from workings.models.gguf import families
from workings.models.shape import ModelShape

OUTPUT = "output.weight"
"""Name in a GGUF file of a head that is not the embedding."""
NOT_ROTATED = 1e30
"""Divides the frequency of a pair of numbers that is not rotated."""


class Form:
    """How a family that is also read is written, and the base class of the others."""

    def __init__(self, architecture: str) -> None:
        self.architecture = architecture
        """Content of `general.architecture`."""

    def header(self, shape: ModelShape) -> dict[str, Any]:
        """Keys without the architecture's name. Raises `RequestError` for a setting that llama.cpp does not compute."""
        return families.hyperparameters(shape)

    def names(self, shape: ModelShape) -> dict[str, str]:
        """Name of every tensor in a GGUF file -> Hugging Face's name of the tensor with its values."""
        return {gguf_name: name for name, gguf_name in families.gguf_names(shape, self.architecture).items()}

    def size(self, name: str, size: tuple[int, ...]) -> tuple[int, ...]:
        """Shape in a GGUF file of Hugging Face's tensor ``name``, whose own shape is ``size``."""
        return size

    def change(self, shape: ModelShape, name: str, tensor: np.ndarray) -> np.ndarray:
        """Float32 values in a GGUF file of Hugging Face's float32 tensor ``name``."""
        return families.to_gguf(shape, name, tensor)

    def rotation(self, shape: ModelShape) -> np.ndarray | None:
        """Content of `ROPE_FACTORS`; None for a file without it."""
        return families.rope_factors(shape)


class _Olmo3(Form):
    """OLMo 3, which llama.cpp computes as an OLMo 2 with sliding layers."""

    def header(self, shape: ModelShape) -> dict[str, Any]:
        if shape.heads * shape.head_dim != shape.width:
            raise _not_computed(shape, f"heads * head_dim = {shape.heads * shape.head_dim}, width {shape.width}")
        values = families.common_header(shape) | _sliding(shape)
        if shape.rope_scaling != 1.0:
            raise _not_computed(shape, "linear scaling of rotation")
        if shape.rope_yarn:
            factor, original, beta_fast, beta_slow, attention_factor = shape.rope_yarn
            values |= {"rope.scaling.type": "yarn", "rope.scaling.factor": factor,
                       "rope.scaling.original_context_length": int(original), "rope.scaling.yarn_beta_fast": beta_fast,
                       "rope.scaling.yarn_beta_slow": beta_slow,
                       # llama.cpp multiplies this by the paper's factor.
                       "rope.scaling.attn_factor": attention_factor / (0.1 * log(factor) + 1.0)}
        return values

    def names(self, shape: ModelShape) -> dict[str, str]:
        names = super().names(shape)
        # llama.cpp needs a head, also if it is the embedding.
        return {OUTPUT: names["token_embd.weight"]} | names


class _Gemma4(Form):
    """Gemma 4, whose layers differ in heads and widths."""

    def header(self, shape: ModelShape) -> dict[str, Any]:
        layers = range(shape.layers)
        large = shape.global_head_dim or shape.head_dim
        values = families.common_header(shape) | _sliding(shape) | {
            "attention.key_length": large, "attention.value_length": large, "rope.dimension_count": large,
            "attention.key_length_swa": shape.head_dim, "attention.value_length_swa": shape.head_dim,
            "rope.dimension_count_swa": shape.head_dim, "rope.freq_base_swa": shape.local_rope_theta,
            "attention.head_count_kv": [shape.kv_heads_of(i) for i in layers],
            "feed_forward_length": [shape.mlp_width_of(i) for i in layers],
            "attention.shared_kv_layers": shape.shared_kv_layers,
            "embedding_length_per_layer_input": shape.per_layer_width}
        if shape.final_softcap:
            values["final_logit_softcapping"] = shape.final_softcap
        if shape.experts:
            values |= {"expert_count": shape.experts, "expert_used_count": shape.experts_per_token,
                       "expert_feed_forward_length": shape.expert_width}
        return values

    def names(self, shape: ModelShape) -> dict[str, str]:
        # The `gguf` package leaves out some ends of names.
        return {gguf_name if gguf_name.endswith((".weight", ".scale")) else f"{gguf_name}.weight": name
                for gguf_name, name in super().names(shape).items()}

    def rotation(self, shape: ModelShape) -> np.ndarray | None:
        # Global layers rotate the first pairs of each head.
        pairs = (shape.global_head_dim or shape.head_dim) // 2
        rotated = int(pairs * shape.rotated_part)
        return np.array([shape.rope_scaling] * rotated + [NOT_ROTATED] * (pairs - rotated), np.float32)


class _Qwen35(Form):
    """Qwen 3.5, whose value heads llama.cpp has in another order (`_reorder_values`)."""

    def header(self, shape: ModelShape) -> dict[str, Any]:
        if shape.linear_key_head_dim != shape.linear_value_head_dim:
            raise _not_computed(shape, "heads of keys and of values of different sizes")
        rotated = int(shape.head_dim * shape.rotated_part)
        third, rest = divmod(rotated // 2, 3)
        return families.common_header(shape) | {
            "rope.dimension_count": rotated,
            # Pairs that rotate by time, height and width, which are the same number in text: 11, 11 and 10 of 32.
            "rope.dimension_sections": [third + (rest > 0), third + (rest > 1), third, 0],
            "attention.recurrent_layers": [shape.is_linear(i) for i in range(shape.layers)],
            "full_attention_interval": shape.linear_pattern or 4,
            "ssm.conv_kernel": shape.linear_conv_kernel, "ssm.state_size": shape.linear_key_head_dim,
            "ssm.group_count": shape.linear_key_heads, "ssm.time_step_rank": shape.linear_value_heads,
            "ssm.inner_size": shape.linear_value_heads * shape.linear_value_head_dim}

    def size(self, name: str, size: tuple[int, ...]) -> tuple[int, ...]:
        return (size[0], size[2]) if name.endswith("conv1d.weight") else size

    def change(self, shape: ModelShape, name: str, tensor: np.ndarray) -> np.ndarray:
        if name.endswith("norm.weight"):
            return tensor if name.endswith("linear_attn.norm.weight") else tensor + np.float32(1)
        if "linear_attn." not in name:
            return tensor
        if name.endswith("A_log"):
            tensor = -np.exp(tensor)
        if name.endswith("out_proj.weight"):
            return self._reorder_values(shape, tensor.T).T
        return self._reorder_values(shape, tensor.reshape(self.size(name, tensor.shape)))

    def _reorder_values(self, shape: ModelShape, tensor: np.ndarray) -> np.ndarray:
        """A tensor whose last rows, those of value heads, change from (key head, value head) to (value head, key head).

        Rows k0v0 k0v1 k1v0 k1v1 become k0v0 k1v0 k0v1 k1v1. A value head has one row, or one for each of its numbers.
        Rows of queries and keys may come before.
        """
        heads, keys = shape.linear_value_heads, shape.linear_key_heads
        rows = heads if len(tensor) == heads else heads * shape.linear_value_head_dim
        before, values = tensor[:-rows], tensor[-rows:]
        moved = values.reshape(keys, heads // keys, -1, *tensor.shape[1:]).swapaxes(0, 1)
        return np.concatenate([before, moved.reshape(values.shape)])


FORMS: Mapping[str, Form] = {name: Form(name) for name in families.ARCHITECTURES} | {
    "olmo3": _Olmo3("olmo2"), "gemma4": _Gemma4("gemma4"), "qwen3_5": _Qwen35("qwen35")}
"""Family -> how it is written."""


def form_of(shape: ModelShape) -> Form:
    """How a model's family is written. Raises `RequestError` for a family that is not."""
    if not shape.verified or shape.family not in FORMS:
        raise RequestError(f"--format gguf cannot hold a {shape.family or 'model outside the families'} model",
                           f"a model of {', '.join(sorted(FORMS))}", "--format safetensors")
    return FORMS[shape.family]


def _sliding(shape: ModelShape) -> dict[str, Any]:
    """Window and kinds of layers."""
    return {"attention.sliding_window": shape.sliding_window,
            "attention.sliding_window_pattern": [shape.slides(i) for i in range(shape.layers)]}


def _not_computed(shape: ModelShape, what: str) -> RequestError:
    return RequestError(f"--format gguf cannot hold a {shape.family} model with {what}",
                        "settings that llama.cpp computes", "--format safetensors")
