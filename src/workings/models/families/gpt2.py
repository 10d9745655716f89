"""GPT-2, whose tensors and ``config.json`` differ from those of all other families here.

Layer norms with biases, learned positions, one matrix for query, key and value, a feed-forward without gate, biases
everywhere, and matrices stored ``[in, out]`` (transformers' ``Conv1D``), applied as ``x @ W + b``.
"""

from collections.abc import Mapping
from typing import Any

from workings.errors import RequestError
from workings.models.family import Family, FamilyRefusal
from workings.models.hf_config import require
from workings.models.shape import ModelShape


class Gpt2(Family):
    """GPT-2's tensors and configuration."""

    def check(self, shape: ModelShape) -> None:
        """Raise `RequestError` for sizes that a GPT-2 cannot have."""
        if shape.heads * shape.head_dim != shape.width or shape.kv_heads != shape.heads:
            raise RequestError(
                f"heads: {shape.heads}, kv_heads: {shape.kv_heads}, head_dim: {shape.head_dim}, width: {shape.width}",
                "heads * head_dim equal to width, and as many kv_heads as heads, in a gpt2 model",
                f"kv_heads: {shape.heads}, head_dim: {max(2, shape.width // shape.heads)}")

    def layer_shapes(self, shape: ModelShape, layer: int) -> dict[str, tuple[int, ...]]:
        """Tensors of one layer: name below ``transformer.h.<i>.`` -> shape."""
        del layer  # all are alike
        width, inner = shape.width, shape.mlp_width
        return {
            "ln_1.weight": (width,), "ln_1.bias": (width,),
            "attn.c_attn.weight": (width, 3 * width), "attn.c_attn.bias": (3 * width,),
            "attn.c_proj.weight": (width, width), "attn.c_proj.bias": (width,),
            "ln_2.weight": (width,), "ln_2.bias": (width,),
            "mlp.c_fc.weight": (width, inner), "mlp.c_fc.bias": (inner,),
            "mlp.c_proj.weight": (inner, width), "mlp.c_proj.bias": (width,),
        }

    def outer_shapes(self, shape: ModelShape) -> dict[str, tuple[int, ...]]:
        """Tensors outside the layers: name -> shape. The embedding is the output matrix as well."""
        width = shape.width
        return {"transformer.wte.weight": (shape.vocab_size, width), "transformer.wpe.weight": (shape.context, width),
                "transformer.ln_f.weight": (width,), "transformer.ln_f.bias": (width,)}

    def read_config(self, config: Mapping[str, Any]) -> ModelShape:
        """Shape of a model from the content of its ``config.json``."""
        require(config, self.needed)
        self.check_fixed(config)
        width, heads = int(config["n_embd"]), int(config["n_head"])
        return ModelShape(family=self.name, **(dict(self.switches) | {
            "vocab_size": int(config["vocab_size"]), "layers": int(config["n_layer"]), "width": width,
            # The published files say null there, which means four times the width.
            "mlp_width": int(config.get("n_inner") or 4 * width), "heads": heads, "kv_heads": heads,
            "head_dim": width // heads, "context": int(config["n_positions"]),
            "rms_norm_eps": float(config.get("layer_norm_epsilon", 1e-5))}))

    def write_config(self, shape: ModelShape) -> dict[str, Any]:
        """Content of a ``config.json`` that transformers opens as this very model."""
        return {"architectures": [self.architecture], "model_type": self.model_type, "vocab_size": shape.vocab_size,
                "n_embd": shape.width, "n_inner": shape.mlp_width, "n_layer": shape.layers, "n_head": shape.heads,
                # The same number twice, as published: llama.cpp's converter reads the second.
                "n_positions": shape.context, "n_ctx": shape.context, "layer_norm_epsilon": shape.rms_norm_eps,
                **self.fixed}


FAMILY = Gpt2(
    name="gpt2", model_type="gpt2", architecture="GPT2LMHeadModel", template="plain",
    switches={"scaled_embeddings": False, "norm_plus_one": False, "rms_norm_eps": 1e-5},
    grouped_heads=False, matrices_in_out=True,
    needed=("vocab_size", "n_embd", "n_layer", "n_head", "n_positions"),
    fixed={"activation_function": "gelu_new", "scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False,
           "reorder_and_upcast_attn": False, "add_cross_attention": False, "tie_word_embeddings": True},
    dropout=("attn_pdrop", "resid_pdrop", "embd_pdrop"),
    projections=("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"), residual=("attn.c_proj", "mlp.c_proj"),
    layer_prefix="transformer.h", optional_prefix="transformer.",
    refusals={"jax": FamilyRefusal(expected="one of the other families; GPT-2 runs on PyTorch",
                                   try_next="engine=torch")})
