"""What a decoder-only model is, without a framework: sizes and the switches in which families differ."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class ModelShape:
    """Sizes and switches of one model; the field names follow Hugging Face's ``config.json`` where it has one."""

    family: str
    """Name of a `workings.models.family.Family`, which knows what is not written here: tensors and ``config.json``."""
    vocab_size: int
    layers: int
    width: int
    mlp_width: int
    heads: int
    kv_heads: int
    head_dim: int
    context: int
    rms_norm_eps: float = 1e-6
    """Added to the mean square, or in GPT-2's layer norms to the variance."""
    rope_theta: float = 10_000.0
    rope_scaling: float = 1.0
    """Positions of global layers are divided by this before rotation (Gemma 3 4B and larger: 8)."""
    local_rope_theta: float = 10_000.0
    """Base of the sliding layers, in families whose layers have two (`Family.local_rotation`: Gemma 3)."""
    sliding_window: int = 0
    """Positions a sliding layer sees, itself included; 0: no sliding layers."""
    sliding_pattern: int = 0
    """Every n-th layer is global, the others slide (Gemma 2: 2, Gemma 3: 6); 0: all are global."""
    query_scale: float = 0.0
    """Scores are multiplied by this; 0: ``head_dim ** -0.5``."""
    attention_softcap: float = 0.0
    """Scores pass through ``cap * tanh(x / cap)`` (Gemma 2: 50); 0: they do not."""
    final_softcap: float = 0.0
    """The same for logits (Gemma 2: 30)."""
    activation: Literal["gelu_tanh", "silu"] = "gelu_tanh"
    tied_embeddings: bool = True
    scaled_embeddings: bool = True
    """Embeddings are multiplied by ``width ** 0.5`` (Gemma)."""
    norm_plus_one: bool = True
    """Norms multiply by ``1 + weight`` (Gemma) instead of ``weight``."""
    post_norms: bool = False
    """Norms after attention and feed-forward as well (Gemma 2 and 3)."""
    qk_norm: bool = False
    """Norms on queries and keys per head (Gemma 3, Qwen 3)."""
    qkv_bias: bool = False
    """Biases on query, key and value projections (Qwen 2)."""
    rope_llama3: tuple[float, ...] = ()
    """Llama 3.1's frequency scaling as (factor, low_freq_factor, high_freq_factor, original context); empty: none."""

    def __post_init__(self) -> None:
        """A shape read from JSON has a list there."""
        object.__setattr__(self, "rope_llama3", tuple(self.rope_llama3))

    def slides(self, layer: int) -> bool:
        """Whether this layer (from 0) sees only the last ``sliding_window`` positions."""
        return self.sliding_pattern > 0 and (layer + 1) % self.sliding_pattern != 0
