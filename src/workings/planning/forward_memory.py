"""Estimated memory of programs that only run the model forward: evaluation, log probabilities and generation.

`LayerMemory`, the memory to compute one layer, also serves the estimate of a training step (`step_memory`). All sizes
are bytes per device. Most formulas are products of

    bytes of an element x arrays that exist at one time x elements of such an array
"""

from dataclasses import dataclass
from math import ceil, prod

from workings.config.training import BYTES_OF_FORMAT
from workings.engines.base import EngineRequest, GenerationShape, ProgramName, ProgramShape
from workings.engines.prefill import cached_numbers, keeps_gathered_layers, largest_divisor, prompts_at_a_time
from workings.models.shape import ModelShape
from workings.models.weights import layer_loops, layer_shapes, state_channels
from workings.planning.memory_formulas import layer_bytes, state_parts

LAYER_ARRAYS = 4
"""Arrays of the model's width that exist at one time inside a layer (fitted to compiled steps)."""
SAMPLING_ARRAYS = 3
"""Arrays of the size of all logits while a token is sampled: the logits, noise, and their sum."""
FEED_FORWARD_POSITIONS, FEED_FORWARD_CHUNKS = 2048, 8
"""A recomputed layer's feed-forward runs in chunks: at least 2048 positions in each, at most 8 chunks."""
QUERY_CHUNK = 256
"""Query positions whose scores exist at one time with chunked attention."""
LINEAR_ATTENTION_CHUNK = 64
"""Positions that a linear-attention layer computes together."""
LINEAR_ATTENTION_COPIES, LINEAR_ATTENTION_PAIRS = 10, 6
"""Arrays that exist at one time in its backward pass (found by a trace): of the size of its queries, keys and values
together, and with one element for each pair of positions of a chunk."""


def forward_program_parts(request: EngineRequest, program: ProgramName, program_shape: ProgramShape, fsdp: int, tp: int,
                          platform: str, device_bytes: int = 0) -> dict[str, int]:
    """Estimated bytes per device of any program but the step, by part, with the optimizer's state in memory.

    ``device_bytes``: memory of a device; with 0 no gathered layers are kept.
    """
    state = state_parts(request, fsdp, tp)
    if isinstance(program_shape, GenerationShape):
        gathered = gathered_layer_bytes(request, program_shape, fsdp, tp, device_bytes)
        return state | _generation_parts(request, program, program_shape, fsdp, tp, platform) | {
            "gathered layers": gathered}
    layer = LayerMemory(request=request, rows=program_shape.rows // fsdp, length=program_shape.positions, fsdp=fsdp,
                        tp=tp, platform=platform)
    chunk = min(request.memory.loss_chunk or layer.tokens, layer.tokens)
    return state | layer.forward_parts() | {"logits": 4 * chunk * request.shape.vocab_size}


def _generation_parts(request: EngineRequest, program: ProgramName, size: GenerationShape, fsdp: int, tp: int,
                      platform: str) -> dict[str, int]:
    """Parts of a program that reads prompts, some at a time, and then writes the new tokens of all rows together."""
    shape, compute_bytes = request.shape, BYTES_OF_FORMAT[request.precision.activations]
    rows, length = ceil(size.prompts / fsdp), size.prompt_tokens
    read_rows = min(prompts_to_read(request, program, rows), prompts_at_a_time(shape, length, compute_bytes))
    layer = LayerMemory(request=request, rows=read_rows, length=length, fsdp=fsdp, tp=tp, platform=platform)
    cache_bytes_per_row = (compute_bytes * kv_cache_elements(shape, length + size.new_tokens)
                           + linear_attention_cache_bytes(shape, compute_bytes))
    # Only the newest token of each row has logits.
    logit_arrays = SAMPLING_ARRAYS if program == "drawing" else 1
    return layer.forward_parts() | {"logits": 4 * logit_arrays * rows * shape.vocab_size,
                                    "cache of keys and values": rows * cache_bytes_per_row}


@dataclass(frozen=True, kw_only=True)
class LayerMemory:
    """Bytes that one device needs to compute a layer for ``rows`` sequences of ``length`` tokens."""

    request: EngineRequest
    rows: int
    length: int
    fsdp: int
    tp: int
    platform: str

    @property
    def shape(self) -> ModelShape:
        """The model."""
        return self.request.shape

    @property
    def tokens(self) -> int:
        """Tokens of all rows."""
        return self.rows * self.length

    @property
    def compute_bytes(self) -> int:
        """Bytes of an element of activations."""
        return BYTES_OF_FORMAT[self.request.precision.activations]

    @property
    def stored_bytes(self) -> int:
        """Bytes of an element of stored weights."""
        return BYTES_OF_FORMAT[self.request.precision.parameters]

    def forward_parts(self) -> dict[str, int]:
        """Parts of the widest layer's forward pass."""
        widest = max(map(self.feed_forward_elements, range(self.shape.layers)))
        # Half of what these two functions count is for gradients and the backward pass.
        step_long = self.step_long_elements_per_token() // 2
        linear_attention = self.linear_attention_bytes_per_token() // 2
        bytes_per_token = self.compute_bytes * (LAYER_ARRAYS * self.shape.width + widest + step_long) + linear_attention
        return {"activations of the layer at hand": self.tokens * bytes_per_token, **self.weights_and_scores()}

    def weights_and_scores(self) -> dict[str, int]:
        """Parts of the layer that is being computed: attention scores, and weights that are gathered or converted."""
        return {"attention scores": self.score_bytes(), "weights of the layer at hand": self._gathered_weight_bytes()}

    def score_bytes(self) -> int:
        """Bytes of the float32 attention scores that exist at one time."""
        attention: str = self.request.memory.attention
        if attention == "auto":
            attention = {"tpu": "flash", "gpu": "chunked"}.get(self.platform, "plain")
        queries = {"plain": self.length, "chunked": min(QUERY_CHUNK, self.length), "flash": 0}[attention]
        return 4 * self.rows * max(1, self.shape.heads // self.tp) * queries * self.length

    def _gathered_weight_bytes(self) -> int:
        layers = [layer_shapes(self.shape, layer) for layer in range(self.shape.layers)]
        if self.request.method.name == "qlora":
            # One 4-bit matrix is dequantized at a time, or all three of a feed-forward that runs in chunks.
            in_chunks = self.request.memory.remat == "layer" and self.tokens >= 2 * FEED_FORWARD_POSITIONS
            largest_matrix = max(prod(dims) for tensors in layers for dims in tensors.values())
            return self.compute_bytes * (3 if in_chunks else 1) * largest_matrix // self.tp
        if self.fsdp == 1 and self.compute_bytes == self.stored_bytes:
            return 0
        # `fsdp` gathers a whole layer before it is computed; `tp` does not.
        return self.compute_bytes * max(sum(map(prod, tensors.values())) for tensors in layers) // self.tp

    def feed_forward_elements(self, layer: int) -> int:
        """Elements of one token inside a layer's feed-forward, and inside the experts that compute it."""
        shape = self.shape
        expert_elements = 3 * shape.expert_width // self.tp + shape.width
        return 3 * shape.mlp_width_of(layer) // self.tp + shape.experts_per_token * expert_elements

    def step_long_elements_per_token(self) -> int:
        """Elements per token that exist during the whole step, with their gradients.

        These are the per-layer embeddings, and the keys and values that later layers use again.
        """
        shape = self.shape
        shared = {shape.key_layer(layer) for layer in range(shape.layers) if shape.shares_keys(layer)}
        keys_and_values = sum(2 * shape.kv_heads_of(layer) * shape.head_dim_of(layer) for layer in shared)
        return 2 * (shape.layers * shape.per_layer_width + keys_and_values)

    def linear_attention_bytes_per_token(self) -> int:
        """Bytes per token inside a linear-attention layer, always in float32; 0 for other models."""
        return 4 * (LINEAR_ATTENTION_COPIES * state_channels(self.shape)
                    + LINEAR_ATTENTION_PAIRS * LINEAR_ATTENTION_CHUNK * self.shape.linear_value_heads)


def linear_attention_cache_bytes(shape: ModelShape, compute_bytes: int) -> int:
    """Bytes of one row's linear-attention states in a cache: float32 matrices, and the last inputs of convolutions."""
    matrix_elements = shape.linear_value_heads * shape.linear_key_head_dim * shape.linear_value_head_dim
    convolution_elements = shape.linear_conv_kernel * state_channels(shape)
    linear_layers = sum(map(shape.is_linear, range(shape.layers)))
    return linear_layers * (4 * matrix_elements + compute_bytes * convolution_elements)


def gathered_layer_bytes(request: EngineRequest, size: GenerationShape, fsdp: int, tp: int, device_bytes: int) -> int:
    """Bytes of whole layers that a device keeps while it writes answers; 0 if it gathers them for every token."""
    layers = layer_bytes(request, tp)
    numbers = ceil(size.prompts / fsdp) * (size.prompt_tokens + size.new_tokens) * cached_numbers(request.shape)
    is_kept = fsdp > 1 and keeps_gathered_layers(
        state_bytes=sum(state_parts(request, fsdp, tp).values()), gathered_bytes=layers,
        cache_bytes=BYTES_OF_FORMAT[request.precision.activations] * numbers, device_bytes=device_bytes)
    return layers if is_kept else 0


def prompts_to_read(request: EngineRequest, program: ProgramName, rows: int) -> int:
    """Number of prompts that one device reads for its rows: a prompt is read once for all its sampled completions."""
    if program != "drawing":
        return rows
    return rows // largest_divisor(request.completions_of_a_prompt, rows)


def kv_cache_elements(shape: ModelShape, tokens: int) -> int:
    """Elements of keys and values that a row of this many tokens has in the cache.

    Sliding layers keep no more than their window (`workings.engines.jax.cache`). A model with equal layers keeps every
    position: JAX scans all layers with one cache, and PyTorch's cache never drops a position.
    """
    has_equal_layers = [len(loop.stacks) for loop in layer_loops(shape)] == [1]
    elements = 0
    for layer in range(shape.layers):
        if shape.shares_keys(layer) or shape.is_linear(layer):
            continue
        keeps_window = shape.slides(layer) and not has_equal_layers
        slots = min(shape.sliding_window, tokens) if keeps_window else tokens
        elements += 2 * slots * shape.kv_heads_of(layer) * shape.head_dim_of(layer)
    return elements
