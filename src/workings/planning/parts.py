"""What a step holds, in bytes per device: exact from tensor shapes and the mesh, and an estimate of the rest.

Shape suffixes of the formulas: A micro batches, B rows and S positions of one device's micro batch, T = B x S, D width,
F feed-forward width, N query heads, K key/value heads, H head size, V vocabulary, L layers.
"""

from math import prod

from workings.config.training import BYTES_OF_FORMAT
from workings.engines.base import EngineRequest, GenerationShape, ProgramName, ProgramShape
from workings.engines.prefill import largest_divisor, prompts_at_a_time
from workings.models.batch import BatchShape
from workings.models.shape import ModelShape
from workings.models.weights import layer_loops, layer_shapes, state_channels
from workings.planning.tensors import (
    PER_LAYER_TABLE,
    adapters,
    table_bytes,
    table_on_host,
    trained_tensors,
    weight_bytes,
)

BATCH_FIELDS = 5
"""Arrays of a batch (tokens, targets, weights, positions, segment ids) beside the objective's signals, four bytes an
element."""
FORMULA_VERSIONS = {"formula": "3"}
"""Stands where a compiler's versions would, so that records tell two formulas apart; raised when estimates change."""
DRAWN_ARRAYS = 3
"""Arrays of all logits' size while a token is drawn: the logits, noise, and their sum."""
FEED_FORWARD_POSITIONS, FEED_FORWARD_CHUNKS = 2048, 8
"""Least positions of a chunk and most chunks of a recomputed layer's feed-forward."""
WEIGHTS_AT_HAND = "weights of the layer at hand"
STATE_CHUNK, STATE_COPIES, STATE_PAIRS = 64, 10, 6
"""In a layer with a state: positions of a chunk, and how often its queries, keys and values, and the pairs of positions
of a chunk, exist at one time while it is differentiated (what a trace showed)."""
QUERIES = 256
"""Query positions whose scores exist at one time with chunked attention."""


def exact_parts(request: EngineRequest, batch: ProgramShape, fsdp: int, tp: int) -> dict[str, int]:
    """Bytes per device of parameters, moments, gradients and batch, from shapes, formats and the mesh alone.

    Per-layer embeddings are a part of their own, unless they lie in the host's memory.
    """
    accumulation, rows, positions = batch
    trained, thin = trained_tensors(request, fsdp, tp), adapters(request, fsdp, tp)
    elements = sum(each.elements for each in trained)
    # Adapters are trained in float32, whatever the frozen weights are stored in.
    stored = 4 if thin else BYTES_OF_FORMAT[request.precision.parameters]
    moments = sum(each.count * request.optimizer.state_bytes(each.size, moments=request.precision.moments,
                                                             in_layer=each.in_layer) for each in trained)
    parts = {"parameters": weight_bytes(request, fsdp, tp) + (4 * elements if thin else 0)}
    if request.shape.per_layer_width and not table_on_host(request):
        parts[PER_LAYER_TABLE] = table_bytes(request, fsdp, tp)
    parts |= {
        "moments": moments,
        "gradients": elements * stored,
        "batch": (BATCH_FIELDS + len(request.objective.signals)) * 4 * accumulation * rows // fsdp * positions,
    }
    if request.precision.rounding == "master_fp32":
        parts["master weights"] = 4 * elements
    # The sum of the micro batches so far lies beside the gradients of the one at hand.
    if accumulation > 1:
        parts["gradient accumulator"] = elements * stored
    return parts


def checkpoint_bytes(request: EngineRequest) -> int:
    """Bytes of one checkpoint over all devices: adapters or the whole model, optimizer state, fp32 master weights."""
    parts = exact_parts(request, BatchShape(1, 1, 1), 1, 1)
    # Gradients are as many and as large as what they belong to; with adapters those alone are saved.
    saved = parts["parameters"] + table_bytes(request, 1, 1) if request.method.name == "full" else parts["gradients"]
    return saved + parts["moments"] + parts.get("master weights", 0)


def feed_forward_numbers(shape: ModelShape, layer: int, tp: int) -> int:
    """Numbers of one token inside a layer's feed-forward, and inside the experts that it goes through."""
    return 3 * shape.mlp_width_of(layer) // tp + shape.experts_per_token * (3 * shape.expert_width // tp + shape.width)


def handed_to_layers(shape: ModelShape) -> int:
    """Numbers of one token that lie beside the layers for all of a step.

    Its per-layer embeddings and their gradient, and the keys and values that later layers attend to.
    """
    shared = {shape.key_layer(layer) for layer in range(shape.layers) if shape.shares_keys(layer)}
    keys = sum(2 * shape.kv_heads_of(layer) * shape.head_dim_of(layer) for layer in shared)
    return 2 * (shape.layers * shape.per_layer_width + keys)


def weights_at_hand(request: EngineRequest, tokens: int, fsdp: int, tp: int) -> int:
    """Bytes of the weights that exist whole, or in the format of the products, while their layer is at work."""
    number = BYTES_OF_FORMAT[request.precision.compute]
    shapes = [layer_shapes(request.shape, layer) for layer in range(request.shape.layers)]
    if request.method.name == "qlora":
        # Four bits are gathered as they are and become numbers one matrix at a time; chunks of a feed-forward share
        # its three.
        most = 3 if request.memory.remat == "layer" and tokens >= 2 * FEED_FORWARD_POSITIONS else 1
        return number * most * max(prod(size) for sizes in shapes for size in sizes.values()) // tp
    if fsdp == 1 and number == BYTES_OF_FORMAT[request.precision.parameters]:
        return 0
    return number * max(sum(map(prod, sizes.values())) for sizes in shapes) // tp


def score_elements(request: EngineRequest, length: int, platform: str) -> int:
    """Elements of one head's scores that exist at one time."""
    asked: str = request.memory.attention
    if asked == "auto":
        asked = {"tpu": "flash", "gpu": "chunked"}.get(platform, "plain")
    return {"plain": length * length, "chunked": min(QUERIES, length) * length, "flash": 0}[asked]


def beside_the_step(request: EngineRequest, program: ProgramName, size: ProgramShape, fsdp: int, tp: int,
                    platform: str) -> dict[str, int]:
    """Bytes per device while the run computes anything but a step, by formula; the optimizer's state lies beside."""
    shape, number = request.shape, BYTES_OF_FORMAT[request.precision.compute]
    # No gradients, but everything that waits in memory for the next step.
    state = {name: size for name, size in exact_parts(request, BatchShape(1, fsdp, 1), fsdp, tp).items()
             if name in ("parameters", PER_LAYER_TABLE, "moments", "master weights")}
    if isinstance(size, GenerationShape):
        rows, length = -(-size.prompts // fsdp), size.prompt_tokens
    else:
        rows, length = size.rows // fsdp, size.positions
    widest = max(feed_forward_numbers(shape, layer, tp) for layer in range(shape.layers))
    # Prompts are read some at a time, each once, and all rows write their new tokens together.
    read = min(prompts_read(request, program, rows), prompts_at_a_time(shape, length, number)) if isinstance(
        size, GenerationShape) else rows
    # Half of what is handed to layers, which counts its gradient as well: without a step there is none.
    layer = read * length * (number * (4 * shape.width + widest + handed_to_layers(shape) // 2)
                             + inside_state(shape) // 2)
    scores = 4 * read * max(1, shape.heads // tp) * score_elements(request, length, platform)
    inside = {"activations of the layer at hand": layer, "attention scores": scores,
              WEIGHTS_AT_HAND: weights_at_hand(request, read * length, fsdp, tp)}
    if isinstance(size, GenerationShape):
        # One position a row: only the newest token's logits exist.
        cached = number * cached_numbers(shape, length + size.new_tokens) + state_bytes(shape, number)
        return state | inside | {"logits": 4 * (DRAWN_ARRAYS if program == "drawing" else 1) * rows * shape.vocab_size,
                                 "cache of keys and values": rows * cached}
    chunk = min(request.memory.loss_chunk or rows * length, rows * length)
    # Without a gradient of theirs beside them, which only a step makes.
    return state | inside | {"logits": 4 * chunk * shape.vocab_size}


def inside_state(shape: ModelShape) -> int:
    """Bytes of one token inside a layer with a state, in float32 whatever is computed in; 0 for other models.

    Queries, keys and values, what is made of them for a chunk of 64 positions, and what pairs of positions have.
    """
    return 4 * (STATE_COPIES * state_channels(shape) + STATE_PAIRS * STATE_CHUNK * shape.linear_value_heads)


def state_bytes(shape: ModelShape, number: int) -> int:
    """Bytes of the states of one row in a cache: matrices in float32, and the last tokens before each filter."""
    matrices = shape.linear_value_heads * shape.linear_key_head_dim * shape.linear_value_head_dim
    layers = sum(map(shape.is_linear, range(shape.layers)))
    return layers * (4 * matrices + number * shape.linear_conv_kernel * state_channels(shape))


def prompts_read(request: EngineRequest, program: ProgramName, rows: int) -> int:
    """Prompts that one device reads for so many rows of its own: one for all completions that are drawn of it."""
    return rows // largest_divisor(request.completions_of_a_prompt, rows) if program == "drawing" else rows


def cached_numbers(shape: ModelShape, tokens: int) -> int:
    """Numbers that a row of so many tokens keeps in the cache: keys and values of the layers that have some.

    Where layers differ, sliding ones keep no more than their window (`workings.engines.jax.cache`). Where all are alike
    every position counts: PyTorch's cache keeps them all.
    """
    alike = [len(loop.places) for loop in layer_loops(shape)] == [1]
    numbers = 0
    for layer in range(shape.layers):
        if not shape.shares_keys(layer) and not shape.is_linear(layer):
            slots = min(shape.sliding_window, tokens) if shape.slides(layer) and not alike else tokens
            numbers += 2 * slots * shape.kv_heads_of(layer) * shape.head_dim_of(layer)
    return numbers
