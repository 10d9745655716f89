"""Estimated memory of programs that only run the model forward: evaluation, log probabilities and generation.

The parts of one layer's forward also serve the estimate of a training step (`step_memory`). All sizes are bytes per
device; ``fsdp`` and ``tp`` are the numbers of devices along the axes of the mesh. Most formulas are products of

    bytes of an element x arrays that exist at one time x elements of such an array
"""

from math import prod

from workings.config.training import BYTES_OF_FORMAT
from workings.engines.base import EngineRequest, GenerationShape, ProgramName, ProgramShape
from workings.engines.prefill import largest_divisor, prompts_at_a_time
from workings.models.shape import ModelShape
from workings.models.weights import layer_loops, layer_shapes, state_channels
from workings.planning.memory_formulas import state_parts

CURRENT_LAYER_WEIGHTS = "weights of the layer at hand"
"""Part of the memory: see `current_layer_weight_bytes`."""
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
                          platform: str) -> dict[str, int]:
    """Estimated bytes per device of any program but the step, by part, with the optimizer's state in memory."""
    state = state_parts(request, fsdp, tp)
    if isinstance(program_shape, GenerationShape):
        return state | _generation_parts(request, program, program_shape, fsdp, tp, platform)
    rows, positions = program_shape.rows // fsdp, program_shape.positions
    chunk = min(request.memory.loss_chunk or rows * positions, rows * positions)
    return state | _layer_parts(request, rows, positions, fsdp, tp, platform) | {
        "logits": 4 * chunk * request.shape.vocab_size}


def _generation_parts(request: EngineRequest, program: ProgramName, program_shape: GenerationShape, fsdp: int, tp: int,
                      platform: str) -> dict[str, int]:
    """Parts of a program that reads prompts and then writes tokens: `drawing` samples them, `generation` is greedy."""
    shape, compute_bytes = request.shape, BYTES_OF_FORMAT[request.precision.activations]
    rows, length = -(-program_shape.prompts // fsdp), program_shape.prompt_tokens
    # Only some prompts are read at a time, each one once. Then all rows write their new tokens together.
    read_rows = min(prompts_to_read(request, program, rows), prompts_at_a_time(shape, length, compute_bytes))
    cache_bytes_per_row = (compute_bytes * kv_cache_elements(shape, length + program_shape.new_tokens)
                           + linear_attention_cache_bytes(shape, compute_bytes))
    logit_arrays = SAMPLING_ARRAYS if program == "drawing" else 1
    # Only the newest token of each row has logits.
    return _layer_parts(request, read_rows, length, fsdp, tp, platform) | {
        "logits": 4 * logit_arrays * rows * shape.vocab_size, "cache of keys and values": rows * cache_bytes_per_row}


def _layer_parts(request: EngineRequest, rows: int, positions: int, fsdp: int, tp: int,
                 platform: str) -> dict[str, int]:
    """Parts of the widest layer's forward pass over the rows of one device."""
    shape, compute_bytes = request.shape, BYTES_OF_FORMAT[request.precision.activations]
    widest = max(feed_forward_elements(shape, layer, tp) for layer in range(shape.layers))
    # Half of what these two functions count is for gradients and the backward pass.
    step_long = step_long_elements_per_token(shape) // 2
    linear_attention = linear_attention_bytes_per_token(shape) // 2
    bytes_per_token = compute_bytes * (LAYER_ARRAYS * shape.width + widest + step_long) + linear_attention
    # Scores are float32.
    score_bytes = 4 * rows * max(1, shape.heads // tp) * attention_score_elements(request, positions, platform)
    return {"activations of the layer at hand": rows * positions * bytes_per_token, "attention scores": score_bytes,
            CURRENT_LAYER_WEIGHTS: current_layer_weight_bytes(request, rows * positions, fsdp, tp)}


def feed_forward_elements(shape: ModelShape, layer: int, tp: int) -> int:
    """Elements of one token inside a layer's feed-forward, and inside the experts that compute it."""
    return 3 * shape.mlp_width_of(layer) // tp + shape.experts_per_token * (3 * shape.expert_width // tp + shape.width)


def step_long_elements_per_token(shape: ModelShape) -> int:
    """Elements per token that exist during the whole step, with their gradients.

    These are the per-layer embeddings, and the keys and values that later layers use again.
    """
    shared = {shape.key_layer(layer) for layer in range(shape.layers) if shape.shares_keys(layer)}
    keys_and_values = sum(2 * shape.kv_heads_of(layer) * shape.head_dim_of(layer) for layer in shared)
    return 2 * (shape.layers * shape.per_layer_width + keys_and_values)


def current_layer_weight_bytes(request: EngineRequest, tokens: int, fsdp: int, tp: int) -> int:
    """Bytes of weights that are gathered or converted for the layer that is being computed."""
    compute_bytes = BYTES_OF_FORMAT[request.precision.activations]
    layers = [layer_shapes(request.shape, layer) for layer in range(request.shape.layers)]
    if request.method.name == "qlora":
        # One 4-bit matrix is dequantized at a time, or all three of a feed-forward that runs in chunks.
        in_chunks = request.memory.remat == "layer" and tokens >= 2 * FEED_FORWARD_POSITIONS
        largest_matrix = max(prod(dims) for tensors in layers for dims in tensors.values())
        return compute_bytes * (3 if in_chunks else 1) * largest_matrix // tp
    if fsdp == 1 and compute_bytes == BYTES_OF_FORMAT[request.precision.parameters]:
        return 0
    # `fsdp` gathers a whole layer before it is computed; `tp` does not.
    return compute_bytes * max(sum(map(prod, tensors.values())) for tensors in layers) // tp


def attention_score_elements(request: EngineRequest, length: int, platform: str) -> int:
    """Elements of one head's scores that exist at one time, for a row of this length."""
    attention: str = request.memory.attention
    if attention == "auto":
        attention = {"tpu": "flash", "gpu": "chunked"}.get(platform, "plain")
    return {"plain": length * length, "chunked": min(QUERY_CHUNK, length) * length, "flash": 0}[attention]


def linear_attention_bytes_per_token(shape: ModelShape) -> int:
    """Bytes per token inside a linear-attention layer, always in float32; 0 for other models."""
    return 4 * (LINEAR_ATTENTION_COPIES * state_channels(shape)
                + LINEAR_ATTENTION_PAIRS * LINEAR_ATTENTION_CHUNK * shape.linear_value_heads)


def linear_attention_cache_bytes(shape: ModelShape, compute_bytes: int) -> int:
    """Bytes of one row's linear-attention states in a cache: float32 matrices, and the last inputs of convolutions."""
    matrix_elements = shape.linear_value_heads * shape.linear_key_head_dim * shape.linear_value_head_dim
    convolution_elements = shape.linear_conv_kernel * state_channels(shape)
    linear_layers = sum(map(shape.is_linear, range(shape.layers)))
    return linear_layers * (4 * matrix_elements + compute_bytes * convolution_elements)


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
