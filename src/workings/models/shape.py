"""Description of a decoder-only model: sizes, and the switches in which families differ."""

from dataclasses import asdict, dataclass, fields
from typing import Any, Literal


@dataclass(frozen=True, kw_only=True)
class ModelShape:
    """Sizes and switches of one model. Names are those of Hugging Face's ``config.json`` where it has them."""

    family: str
    """Name of a `workings.models.family.Family`, which knows tensors and ``config.json``."""
    vocab_size: int
    layers: int
    width: int
    mlp_width: int
    heads: int
    kv_heads: int
    head_dim: int
    context: int
    rms_norm_eps: float = 1e-6
    """Added to the mean square."""
    rope_theta: float = 10_000.0
    rope_scaling: float = 1.0
    """Positions of global layers are divided by this before rotation (Gemma 3 4B and larger: 8)."""
    local_rope_theta: float = 10_000.0
    """Base of the sliding layers, in families whose layers have two (`Family.local_rotation`: Gemma 3)."""
    sliding_window: int = 0
    """Positions that a sliding layer sees, itself included; 0: no sliding layers."""
    sliding_pattern: int = 0
    """Every n-th layer is global, the others slide (Gemma 2: 2, Gemma 3: 6); 0: all are global."""
    last_layer_global: bool = False
    """The last layer is global, whatever the pattern says (Gemma 4)."""
    layer_types: tuple[str, ...] = ()
    """``sliding``, ``global`` or ``linear`` for each layer; empty: a pattern says it."""
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
    """Llama 3.1's frequency scaling: (factor, low_freq_factor, high_freq_factor, original context); empty: none."""
    rope_yarn: tuple[float, ...] = ()
    """YaRN (OLMo 3): (factor, original context, beta_fast, beta_slow, attention factor); empty: none."""
    unrotated_pattern: int = 0
    """Every n-th layer does not rotate its queries and keys (SmolLM3: 4); 0: all do."""
    rotated_part: float = 1.0
    """Part of each head that is rotated: in global layers (Gemma 4: 0.25), or in all that attend (Qwen 3.5: 0.25)."""
    norm_rounds_once: bool = False
    """Norms multiply by their weight in float32 and round once (Gemma 4, OLMo 3); Llama's also round before that."""
    pre_norms: bool = True
    """Norms before attention and feed-forward (not OLMo 3)."""
    qk_norm_whole: bool = False
    """The norms on queries and keys run over all heads together (OLMo 3)."""
    value_norm: bool = False
    """Norms on values per head, without a weight (Gemma 4)."""
    global_head_dim: int = 0
    """Size of a head in global layers (Gemma 4: 512); 0: ``head_dim``."""
    global_kv_heads: int = 0
    """Key and value heads of global layers (Gemma 4 31B: 4); 0: ``kv_heads``."""
    keys_as_values: bool = False
    """Global layers have no value projection: values are the projected keys, before norm and rotation (Gemma 4 31B)."""
    shared_kv_layers: int = 0
    """The last n layers attend to the keys and values of the last earlier layer of their kind (Gemma 4 E2B: 20)."""
    shared_mlp_width: int = 0
    """Feed-forward width of those layers (Gemma 4 E2B: twice the others'); 0: ``mlp_width``."""
    per_layer_width: int = 0
    """Width of per-layer embeddings, numbers of each token for each layer (Gemma 4 E2B and E4B: 256); 0: none."""
    layer_scalar: bool = False
    """Each layer's output is multiplied by its own fixed number (Gemma 4)."""
    experts: int = 0
    """Experts of a layer, next to its feed-forward (Gemma 4 26B-A4B: 128); 0: none."""
    experts_per_token: int = 0
    """Experts that each token is routed to (8)."""
    expert_width: int = 0
    """Feed-forward width of one expert (704)."""
    linear_pattern: int = 0
    """Every n-th layer attends, the others keep a linear state instead of keys and values (Qwen 3.5: 4); 0: all
    attend."""
    linear_key_heads: int = 0
    """Heads of queries and of keys in layers with a state (16)."""
    linear_value_heads: int = 0
    """Heads of values in these layers, a multiple of ``linear_key_heads`` (16; 32 from 4B on)."""
    linear_key_head_dim: int = 0
    """Size of a head of queries or keys in these layers (128)."""
    linear_value_head_dim: int = 0
    """Size of a head of values in these layers (128)."""
    linear_conv_kernel: int = 0
    """Positions that the convolution before the state covers (4)."""
    config: str = ""
    """``config.json`` of an unverified model (`workings.models.unverified`); empty for a model of a family."""
    tensors: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """Name and shape of every tensor of an unverified model."""

    def __post_init__(self) -> None:
        """Convert values read from JSON, which has lists for tuples and integers for whole numbers (30 for 30.0)."""
        for field in fields(self):
            if field.type is float:
                object.__setattr__(self, field.name, float(getattr(self, field.name)))
        for name in ("rope_llama3", "rope_yarn", "layer_types"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        object.__setattr__(self, "tensors", tuple((name, tuple(size)) for name, size in self.tensors))

    @property
    def verified(self) -> bool:
        """Whether the model is of a family, which was compared with transformers."""
        return not self.config

    def to_json(self) -> dict[str, Any]:
        """Entry of a record; fields of linear attention and of unverified models are left out if they are empty."""
        return {name: value for name, value in asdict(self).items()
                if value or not name.startswith(("config", "tensors", "linear_"))}

    def slides(self, layer: int) -> bool:
        """Whether this layer (from 0) attends only to the last ``sliding_window`` positions."""
        if self.layer_types:
            return self.layer_types[layer] == "sliding"
        if self.last_layer_global and layer == self.layers - 1:
            return False
        # With a pattern of 6, layers 5, 11, … are global.
        return self.sliding_pattern > 0 and (layer + 1) % self.sliding_pattern != 0

    def is_linear(self, layer: int) -> bool:
        """Whether this layer keeps a state instead of keys and values."""
        if self.layer_types:
            return self.layer_types[layer] == "linear"
        return self.linear_pattern > 0 and (layer + 1) % self.linear_pattern != 0

    @property
    def has_state(self) -> bool:
        """Whether some layer keeps a state, which sees all tokens before, whatever a mask says."""
        return any(map(self.is_linear, range(self.layers)))

    def rotates(self, layer: int) -> bool:
        """Whether this layer rotates its queries and keys."""
        return self.unrotated_pattern == 0 or (layer + 1) % self.unrotated_pattern != 0

    def shares_keys(self, layer: int) -> bool:
        """Whether this layer attends to the keys and values of an earlier one."""
        return layer >= self.layers - self.shared_kv_layers

    def key_layer(self, layer: int) -> int:
        """The layer whose keys and values this one attends to: itself, or the last of its kind that has some."""
        if not self.shares_keys(layer):
            return layer
        with_keys = range(self.layers - self.shared_kv_layers)
        return max(i for i in with_keys if self.slides(i) == self.slides(layer))

    def head_dim_of(self, layer: int) -> int:
        """Size of a head of this layer."""
        return self.head_dim if self.slides(layer) else self.global_head_dim or self.head_dim

    def kv_heads_of(self, layer: int) -> int:
        """Key and value heads of this layer."""
        return self.kv_heads if self.slides(layer) else self.global_kv_heads or self.kv_heads

    def mlp_width_of(self, layer: int) -> int:
        """Feed-forward width of this layer."""
        return self.shared_mlp_width or self.mlp_width if self.shares_keys(layer) else self.mlp_width
