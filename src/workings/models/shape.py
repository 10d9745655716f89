"""Description of a decoder-only model without a framework: sizes, and the switches in which families differ."""

from dataclasses import asdict, dataclass, fields
from typing import Any, Literal


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
    """Added to the mean square."""
    rope_theta: float = 10_000.0
    rope_scaling: float = 1.0
    """Positions of global layers are divided by this before rotation (Gemma 3 4B and larger: 8)."""
    local_rope_theta: float = 10_000.0
    """Base of the sliding layers, in families whose layers have two (`Family.local_rotation`: Gemma 3)."""
    sliding_window: int = 0
    """Positions a sliding layer sees, itself included; 0: no sliding layers."""
    sliding_pattern: int = 0
    """Every n-th layer is global, the others slide (Gemma 2: 2, Gemma 3: 6); 0: all are global."""
    last_layer_global: bool = False
    """The last layer is global regardless of what the pattern says (Gemma 4)."""
    layer_types: tuple[str, ...] = ()
    """``sliding``, ``global`` or ``linear`` for each layer, where no pattern says it; empty: the pattern."""
    query_scale: float = 0.0
    """Scores are multiplied by this; 0: ``head_dim ** -0.5``."""
    attention_softcap: float = 0.0
    """Scores pass through ``cap * tanh(x / cap)`` (Gemma 2: 50); 0: they do not."""
    final_softcap: float = 0.0
    """Bound of logits by the same function; 0: none (Gemma 2: 30)."""
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
    rope_yarn: tuple[float, ...] = ()
    """YaRN's as (factor, original context, beta_fast, beta_slow, factor of cosines and sines); empty: none (OLMo 3)."""
    unrotated_pattern: int = 0
    """Every n-th layer does not rotate its queries and keys (SmolLM3: 4); 0: all do."""
    rotated_part: float = 1.0
    """Part of each head that is rotated: in global layers (Gemma 4: 0.25), or in all that attend (Qwen 3.5: 0.25)."""
    norm_rounds_once: bool = False
    """Norms multiply by their weight in float32 and round once (Gemma 4, OLMo 3); Llama's round before that, too."""
    pre_norms: bool = True
    """Norms before attention and feed-forward; OLMo 3 has only those after them."""
    qk_norm_whole: bool = False
    """The norms on queries and keys run over all heads together (OLMo 3) instead of each head by itself."""
    value_norm: bool = False
    """Values are normed per head as well, without a weight (Gemma 4)."""
    global_head_dim: int = 0
    """Size of a head in global layers (Gemma 4: 512); 0: ``head_dim``."""
    global_kv_heads: int = 0
    """Key and value heads of global layers (Gemma 4 31B: 4); 0: ``kv_heads``."""
    keys_as_values: bool = False
    """Global layers have no value projection: values are the projected keys, before norm and rotation (Gemma 4 31B)."""
    shared_kv_layers: int = 0
    """The last n layers have no keys and values: they attend to those of the last layer of their kind (sliding or
    global) that has some (Gemma 4 E2B: 20 of 35)."""
    shared_mlp_width: int = 0
    """Feed-forward width of those layers (Gemma 4 E2B: twice the others'); 0: ``mlp_width``."""
    per_layer_width: int = 0
    """Width of per-layer embeddings: a second table gives each token this many numbers for each layer (Gemma 4 E2B and
    E4B: 256); 0: none."""
    layer_scalar: bool = False
    """Each layer's output is multiplied by its own fixed number (Gemma 4)."""
    experts: int = 0
    """Experts of a layer, next to its feed-forward (Gemma 4 26B-A4B: 128); 0: none."""
    experts_per_token: int = 0
    """Experts that each token is routed to (8)."""
    expert_width: int = 0
    """Feed-forward width of one expert (704)."""
    linear_pattern: int = 0
    """Every n-th layer attends, the others keep a state of fixed size instead of keys and values: linear attention
    (Qwen 3.5: 4); 0: all attend."""
    linear_key_heads: int = 0
    """Heads of queries and of keys in layers with a state (16)."""
    linear_value_heads: int = 0
    """Heads of values there, a multiple of those (16; 32 from 4B on)."""
    linear_key_head_dim: int = 0
    """Size of such a head of queries or keys (128)."""
    linear_value_head_dim: int = 0
    """Size of such a head of values (128)."""
    linear_conv_kernel: int = 0
    """Positions that are mixed before they reach the state (4)."""
    config: str = ""
    """``config.json`` of a model outside of this package's families (`model.verified: false`), from which transformers
    builds it (`workings.models.unverified`); empty for a verified model."""
    tensors: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """Name and shape of every tensor in the files of such a model."""

    def __post_init__(self) -> None:
        """Convert values read from JSON, which has lists for tuples and integers for whole numbers (30 for 30.0)."""
        # transformers refuses a config.json whose soft cap is an integer.
        for field in fields(self):
            # `is` works because annotations are evaluated in this module; postponed ones would be texts, and match
            # nothing.
            if field.type is float:
                object.__setattr__(self, field.name, float(getattr(self, field.name)))
        for name in ("rope_llama3", "rope_yarn", "layer_types"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        object.__setattr__(self, "tensors", tuple((name, tuple(size)) for name, size in self.tensors))

    @property
    def verified(self) -> bool:
        """Whether the model belongs to a family of this package, which was compared with transformers."""
        return not self.config

    def to_json(self) -> dict[str, Any]:
        """Entry of a record; fields of linear attention and of unverified models are left out if they are empty."""
        values = asdict(self)
        return {name: x for name, x in values.items()
                if x or not (name in ("config", "tensors") or name.startswith("linear_"))}

    def slides(self, layer: int) -> bool:
        """Whether this layer (from 0) attends only to the last ``sliding_window`` positions."""
        if self.layer_types:
            return self.layer_types[layer] == "sliding"
        if self.last_layer_global and layer == self.layers - 1:
            return False
        # Counted from 1: with a pattern of 6, layers 5, 11, … (from 0) are the global ones.
        return self.sliding_pattern > 0 and (layer + 1) % self.sliding_pattern != 0

    def is_linear(self, layer: int) -> bool:
        """Whether this layer keeps a state instead of keys and values."""
        if self.layer_types:
            return self.layer_types[layer] == "linear"
        return self.linear_pattern > 0 and (layer + 1) % self.linear_pattern != 0

    @property
    def has_state(self) -> bool:
        """Whether some layer keeps a state: it sees all tokens before, and no mask leaves some of them out."""
        return any(map(self.is_linear, range(self.layers)))

    def rotates(self, layer: int) -> bool:
        """Whether this layer turns its queries and keys by their positions."""
        return self.unrotated_pattern == 0 or (layer + 1) % self.unrotated_pattern != 0

    def shares_keys(self, layer: int) -> bool:
        """Whether this layer attends to the keys and values of an earlier one."""
        return layer >= self.layers - self.shared_kv_layers

    def key_layer(self, layer: int) -> int:
        """The layer whose keys and values this one attends to: itself, or the last of its kind that has some."""
        if not self.shares_keys(layer):
            return layer
        own = range(self.layers - self.shared_kv_layers)
        return max(i for i in own if self.slides(i) == self.slides(layer))

    def head_dim_of(self, layer: int) -> int:
        """Size of a head of this layer."""
        return self.head_dim if self.slides(layer) else self.global_head_dim or self.head_dim

    def kv_heads_of(self, layer: int) -> int:
        """Key and value heads of this layer."""
        return self.kv_heads if self.slides(layer) else self.global_kv_heads or self.kv_heads

    def mlp_width_of(self, layer: int) -> int:
        """Feed-forward width of this layer."""
        return self.shared_mlp_width or self.mlp_width if self.shares_keys(layer) else self.mlp_width
