"""Memory formulas, in bytes per device: exact ones from tensor shapes and the mesh, and estimates of the rest.

A product in these formulas is (bytes of an element) x (arrays that exist at one time) x (elements of such an array).
``fsdp`` and ``tp`` are the numbers of devices along the axes of the mesh. ``compute_bytes`` and ``stored_bytes`` are
those of an element of activations and of stored weights.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from math import prod
from types import MappingProxyType

from workings.config.training import BYTES_OF_FORMAT
from workings.engines.base import EngineRequest, GenerationShape, ProgramName, ProgramShape
from workings.engines.prefill import largest_divisor, prompts_at_a_time
from workings.models.batch import BatchShape
from workings.models.family import EMBEDDING, HEAD, PER_LAYER_EMBEDDING, RESIDUAL
from workings.models.shape import ModelShape
from workings.models.weights import is_frozen, layer_loops, layer_shapes, outer_shapes, projections, state_channels

PER_LAYER_TABLE = "per-layer embeddings (frozen)"
"""Part of the memory: the second embedding table, which no method trains (Gemma 4 E2B: half of the model)."""
INPUT_SPLIT = tuple(f"{name}.weight" for name in RESIDUAL)
"""Matrices whose input axis is split over ``tp``; all others split their output axis."""
NF4_BLOCK = 64
"""Elements of a 4-bit matrix that share a scale of four bytes."""
BATCH_ARRAYS = 5
"""Arrays of a batch (tokens, targets, weights, positions, segment ids) next to the objective's signals, four bytes an
element."""
LAYER_ARRAYS = 4
"""Arrays of the model's width that exist at one time inside a layer (fitted to compiled steps)."""
SAMPLING_ARRAYS = 3
"""Arrays of the size of all logits while a token is sampled: the logits, noise, and their sum."""
FEED_FORWARD_POSITIONS, FEED_FORWARD_CHUNKS = 2048, 8
"""A recomputed layer's feed-forward runs in chunks of at least 2048 positions, at most 8 of them."""
QUERY_CHUNK = 256
"""Query positions whose scores exist at one time with chunked attention."""
LINEAR_ATTENTION_CHUNK = 64
"""Positions that a linear-attention layer computes together."""
LINEAR_ATTENTION_COPIES, LINEAR_ATTENTION_PAIRS = 10, 6
"""Arrays that exist at one time in its backward pass (found by a trace): as large as its queries, keys and values
together, and with an element for each pair of positions of a chunk."""
CURRENT_LAYER_WEIGHTS = "weights of the layer at hand"
FORMULA_VERSIONS = {"formula": "3"}
"""Recorded in place of a compiler's versions, to tell two formulas apart; raised when estimates change."""
Dims = tuple[int, ...]
"""Length of each axis of a tensor."""


@dataclass(frozen=True, kw_only=True)
class Tensor:
    """One device's piece of a tensor."""

    name: str
    """The full name; of a layer's tensor, the name within the layer."""
    dims: Dims
    count: int
    """Number of layers that have it; 1 outside of the layers."""
    in_layer: bool

    @property
    def elements(self) -> int:
        """Elements of all of them on one device."""
        return prod(self.dims) * self.count


@cache
def layer_tensors(shape: ModelShape) -> Mapping[tuple[str, Dims], int]:
    """Name and dimensions of every tensor of the layers -> how many layers have it."""
    return MappingProxyType(Counter(
        tensor for layer in range(shape.layers) for tensor in layer_shapes(shape, layer).items()))


def local_tensors(shape: ModelShape, fsdp: int, tp: int) -> Iterator[Tensor]:
    """One device's piece of each tensor; an axis that does not divide is left whole."""
    for name, dims in outer_shapes(shape).items():
        yield Tensor(name=name, dims=_local(name, dims, fsdp, tp), count=1, in_layer=False)
    for (name, dims), count in layer_tensors(shape).items():
        yield Tensor(name=name, dims=_local(name, dims, fsdp, tp), count=count, in_layer=True)


def _local(name: str, dims: Dims, fsdp: int, tp: int) -> Dims:
    """Dimensions of one device's piece of a tensor."""
    # Norms and biases are whole on every device: they are too small for splitting to matter.
    if len(dims) < 2:
        return dims
    # Tables are split by rows over all devices, whichever axis of the mesh they are on.
    if name in (EMBEDDING, HEAD, PER_LAYER_EMBEDDING):
        return _local_length(dims[0], (fsdp * tp,)), dims[1]
    split_out, split_in = (fsdp, tp) if name in INPUT_SPLIT else (tp, fsdp)
    # The matrices of experts are in one tensor, whose first axis counts them and stays whole.
    return *dims[:-2], _local_length(dims[-2], (split_out,)), _local_length(dims[-1], (split_in,))


def _local_length(length: int, splits: tuple[int, ...]) -> int:
    """One device's piece of an axis that is split by as many of these numbers, from the first, as divide its length."""
    while splits and length % prod(splits):
        splits = splits[:-1]
    return length // prod(splits)


def trained_tensors(request: EngineRequest, fsdp: int, tp: int) -> list[Tensor]:
    """Tensors with gradients and moments: adapters, or else all that the family does not freeze."""
    if request.method.name != "full":
        return adapters(request, fsdp, tp)
    return [tensor for tensor in local_tensors(request.shape, fsdp, tp) if not is_frozen(tensor.name, request.shape)]


def adapters(request: EngineRequest, fsdp: int, tp: int) -> list[Tensor]:
    """Adapters of LoRA and QLoRA: A ``[rank, in]`` and B ``[out, rank]`` of each chosen projection; else none."""
    method = request.method
    if method.name == "full":
        return []
    tensors: list[Tensor] = []
    for (name, dims), count in layer_tensors(request.shape).items():
        if len(dims) == 2 and name.removesuffix(".weight").rpartition(".")[2] in method.target_modules:
            out_length, in_length = dims
            # `tp` splits the same axis as in the projection; `fsdp` splits both matrices.
            splits_input = name.endswith(INPUT_SPLIT)
            a_matrix = (method.rank, _local_length(in_length, (tp, fsdp) if splits_input else (fsdp,)))
            b_matrix = (_local_length(out_length, (fsdp,) if splits_input else (tp, fsdp)), method.rank)
            tensors += [Tensor(name=name, dims=thin, count=count, in_layer=True) for thin in (a_matrix, b_matrix)]
    return tensors


def table_bytes(request: EngineRequest, fsdp: int, tp: int) -> int:
    """Bytes of one device's piece of the per-layer embeddings, in device or host memory; 0 for a model without them."""
    stored_bytes = BYTES_OF_FORMAT[request.precision.parameters]
    # If an engine does not split frozen weights, every device holds all of them.
    mesh = (fsdp, tp) if request.split_frozen else (1, 1)
    return sum(stored_bytes * tensor.elements for tensor in local_tensors(request.shape, *mesh)
               if tensor.name == PER_LAYER_EMBEDDING)


def table_on_host(request: EngineRequest) -> bool:
    """Whether the recipe keeps the per-layer embeddings in the host's memory."""
    return bool(request.shape.per_layer_width) and request.memory.per_layer_embeddings == "host"


def host_parts(request: EngineRequest, devices: int) -> dict[str, int]:
    """Bytes in the host's memory by part: the per-layer embeddings whole, once for the process of each device."""
    return {PER_LAYER_TABLE: devices * table_bytes(request, 1, 1)} if table_on_host(request) else {}


def weight_bytes(request: EngineRequest, fsdp: int, tp: int) -> int:
    """Bytes of weights as they are stored, without per-layer embeddings and adapters."""
    stored_bytes, total = BYTES_OF_FORMAT[request.precision.parameters], 0
    quantized = {f"{name}.weight" for name in projections(request.shape)} if request.method.name == "qlora" else set()
    # Next to the split pieces, because an engine may leave frozen matrices whole on every device.
    unsharded = local_tensors(request.shape, 1, 1)
    for tensor, unsplit in zip(local_tensors(request.shape, fsdp, tp), unsharded, strict=True):
        if tensor.name in quantized and tensor.in_layer:
            elements = (tensor if request.split_frozen else unsplit).elements
            # Two elements a byte, and a float32 scale a block. Blocks are never cut, so whole ones are counted.
            total += elements // 2 + 4 * (elements // NF4_BLOCK)
        elif tensor.name != PER_LAYER_EMBEDDING:
            total += stored_bytes * tensor.elements
    return total


def exact_parts(request: EngineRequest, batch: ProgramShape, fsdp: int, tp: int) -> dict[str, int]:
    """Bytes per device of parameters, moments, gradients and batch, from shapes, formats and the mesh alone.

    ``batch`` is (accumulation, rows of a micro batch, positions), as in `BatchShape`. Per-layer embeddings are their
    own part, unless they are in the host's memory.
    """
    accumulation, rows, positions = batch
    trained, adapter_tensors = trained_tensors(request, fsdp, tp), adapters(request, fsdp, tp)
    elements = sum(tensor.elements for tensor in trained)
    # Adapters are trained in float32, in any format of the frozen weights.
    trained_bytes = 4 if adapter_tensors else BYTES_OF_FORMAT[request.precision.parameters]
    moments = sum(tensor.count * request.optimizer.state_bytes(tensor.dims, moments=request.precision.moments,
                                                               in_layer=tensor.in_layer) for tensor in trained)
    parts = {"parameters": weight_bytes(request, fsdp, tp) + (4 * elements if adapter_tensors else 0)}
    if request.shape.per_layer_width and not table_on_host(request):
        parts[PER_LAYER_TABLE] = table_bytes(request, fsdp, tp)
    parts |= {
        "moments": moments,
        "gradients": elements * trained_bytes,
        "batch": (BATCH_ARRAYS + len(request.objective.signals)) * 4 * accumulation * rows // fsdp * positions,
    }
    if request.precision.rounding == "master_fp32":
        parts["master weights"] = 4 * elements
    # The sum of the micro batches so far is next to the gradients of the one at hand.
    if accumulation > 1:
        parts["gradient accumulator"] = elements * trained_bytes
    return parts


def state_parts(request: EngineRequest, fsdp: int, tp: int) -> dict[str, int]:
    """Bytes per device of what a trained model keeps in memory between steps, by part."""
    # The smallest batch that the mesh divides: none of these parts depends on it.
    parts = exact_parts(request, BatchShape(1, fsdp, 1), fsdp, tp)
    return {name: part_bytes for name, part_bytes in parts.items()
            if name in ("parameters", PER_LAYER_TABLE, "moments", "master weights")}


def checkpoint_bytes(request: EngineRequest) -> int:
    """Bytes of one checkpoint over all devices: adapters or the whole model, optimizer state, fp32 master weights."""
    parts = exact_parts(request, BatchShape(1, 1, 1), 1, 1)
    # Gradients have the sizes of the trained parameters; with adapters only these are saved.
    saved = parts["parameters"] + table_bytes(request, 1, 1) if request.method.name == "full" else parts["gradients"]
    return saved + parts["moments"] + parts.get("master weights", 0)


def feed_forward_elements(shape: ModelShape, layer: int, tp: int) -> int:
    """Elements of one token inside a layer's feed-forward, and inside the experts that it goes through."""
    return 3 * shape.mlp_width_of(layer) // tp + shape.experts_per_token * (3 * shape.expert_width // tp + shape.width)


def step_long_elements_per_token(shape: ModelShape) -> int:
    """Elements per token in memory for the whole step: per-layer embeddings, and keys and values of later layers."""
    shared = {shape.key_layer(layer) for layer in range(shape.layers) if shape.shares_keys(layer)}
    keys_and_values = sum(2 * shape.kv_heads_of(layer) * shape.head_dim_of(layer) for layer in shared)
    # Twice: the values themselves and their gradients.
    return 2 * (shape.layers * shape.per_layer_width + keys_and_values)


def current_layer_weight_bytes(request: EngineRequest, tokens: int, fsdp: int, tp: int) -> int:
    """Bytes of gathered or converted weights of the layer that is being computed."""
    compute_bytes = BYTES_OF_FORMAT[request.precision.activations]
    layers = [layer_shapes(request.shape, layer) for layer in range(request.shape.layers)]
    if request.method.name == "qlora":
        # Four bits are gathered as they are and are dequantized one matrix at a time; chunks of a feed-forward share
        # its three matrices.
        matrices = 3 if request.memory.remat == "layer" and tokens >= 2 * FEED_FORWARD_POSITIONS else 1
        largest_matrix = max(prod(dims) for tensors in layers for dims in tensors.values())
        return compute_bytes * matrices * largest_matrix // tp
    if fsdp == 1 and compute_bytes == BYTES_OF_FORMAT[request.precision.parameters]:
        return 0
    # `fsdp` gathers a whole layer before it is computed; `tp` keeps its own part.
    return compute_bytes * max(sum(map(prod, tensors.values())) for tensors in layers) // tp


def attention_score_elements(request: EngineRequest, length: int, platform: str) -> int:
    """Elements of one head's scores that exist at one time."""
    attention: str = request.memory.attention
    if attention == "auto":
        attention = {"tpu": "flash", "gpu": "chunked"}.get(platform, "plain")
    return {"plain": length * length, "chunked": min(QUERY_CHUNK, length) * length, "flash": 0}[attention]


def forward_program_parts(request: EngineRequest, program: ProgramName, program_shape: ProgramShape, fsdp: int, tp: int,
                          platform: str) -> dict[str, int]:
    """Bytes per device of a program other than the step, by formula, with the optimizer's state in memory."""
    state = state_parts(request, fsdp, tp)
    if isinstance(program_shape, GenerationShape):
        return state | _generation_parts(request, program, program_shape, fsdp, tp, platform)
    rows, positions = program_shape.rows // fsdp, program_shape.positions
    chunk = min(request.memory.loss_chunk or rows * positions, rows * positions)
    return state | _forward_pass_parts(request, rows, positions, fsdp, tp, platform) | {
        "logits": 4 * chunk * request.shape.vocab_size}


def _generation_parts(request: EngineRequest, program: ProgramName, program_shape: GenerationShape, fsdp: int, tp: int,
                      platform: str) -> dict[str, int]:
    """Parts of a program that reads prompts and then writes tokens: `drawing` samples them, `generation` is greedy."""
    shape, compute_bytes = request.shape, BYTES_OF_FORMAT[request.precision.activations]
    rows, length = -(-program_shape.prompts // fsdp), program_shape.prompt_tokens
    # Prompts are read some at a time, each once, and all rows write their new tokens together.
    read_rows = min(prompts_to_read(request, program, rows), prompts_at_a_time(shape, length, compute_bytes))
    cache_bytes = compute_bytes * kv_cache_elements(shape, length + program_shape.new_tokens) \
        + linear_attention_cache_bytes(shape, compute_bytes)
    # One position a row: only the newest token's logits exist.
    arrays = SAMPLING_ARRAYS if program == "drawing" else 1
    return _forward_pass_parts(request, read_rows, length, fsdp, tp, platform) | {
        "logits": 4 * arrays * rows * shape.vocab_size, "cache of keys and values": rows * cache_bytes}


def _forward_pass_parts(request: EngineRequest, rows: int, positions: int, fsdp: int, tp: int,
                        platform: str) -> dict[str, int]:
    """Parts of the widest layer while one device computes it for its rows, without gradients."""
    shape, compute_bytes = request.shape, BYTES_OF_FORMAT[request.precision.activations]
    widest = max(feed_forward_elements(shape, layer, tp) for layer in range(shape.layers))
    # Both functions count gradients or the backward pass, which take the other half.
    step_long = step_long_elements_per_token(shape) // 2
    linear_attention = linear_attention_bytes_per_token(shape) // 2
    layer_bytes = rows * positions * (
        compute_bytes * (LAYER_ARRAYS * shape.width + widest + step_long) + linear_attention)
    # Scores are float32.
    score_bytes = 4 * rows * max(1, shape.heads // tp) * attention_score_elements(request, positions, platform)
    return {"activations of the layer at hand": layer_bytes, "attention scores": score_bytes,
            CURRENT_LAYER_WEIGHTS: current_layer_weight_bytes(request, rows * positions, fsdp, tp)}


def linear_attention_bytes_per_token(shape: ModelShape) -> int:
    """Bytes per token inside a linear-attention layer, always in float32; 0 for other models."""
    # Queries, keys and values, their products for a chunk of positions, and arrays of pairs of positions.
    return 4 * (LINEAR_ATTENTION_COPIES * state_channels(shape)
                + LINEAR_ATTENTION_PAIRS * LINEAR_ATTENTION_CHUNK * shape.linear_value_heads)


def linear_attention_cache_bytes(shape: ModelShape, compute_bytes: int) -> int:
    """Bytes of one row's linear-attention states in a cache: float32 matrices, and the last inputs of convolutions."""
    matrices = shape.linear_value_heads * shape.linear_key_head_dim * shape.linear_value_head_dim
    layers = sum(map(shape.is_linear, range(shape.layers)))
    return layers * (4 * matrices + compute_bytes * shape.linear_conv_kernel * state_channels(shape))


def prompts_to_read(request: EngineRequest, program: ProgramName, rows: int) -> int:
    """Number of prompts that one device reads for its rows: each once for all its completions."""
    return rows // largest_divisor(request.completions_of_a_prompt, rows) if program == "drawing" else rows


def kv_cache_elements(shape: ModelShape, tokens: int) -> int:
    """Elements of keys and values that a row of this many tokens has in the cache.

    If layers differ, sliding ones keep no more than their window (`workings.engines.jax.cache`). If all are equal,
    every position counts: PyTorch's cache keeps them all.
    """
    equal_layers = [len(loop.stacks) for loop in layer_loops(shape)] == [1]
    elements = 0
    for layer in range(shape.layers):
        if not shape.shares_keys(layer) and not shape.is_linear(layer):
            # One scan over all layers has one cache of one length for all, so windows save nothing there.
            slots = min(shape.sliding_window, tokens) if shape.slides(layer) and not equal_layers else tokens
            elements += 2 * slots * shape.kv_heads_of(layer) * shape.head_dim_of(layer)
    return elements
