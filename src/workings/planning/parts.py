"""What a step holds, in bytes per device: exact from tensor shapes and the mesh, and an estimate of the rest.

Shape suffixes of the formulas: A micro batches, B rows and S positions of one device's micro batch, T = B x S, D width,
F feed-forward width, N query heads, K key/value heads, H head size, V vocabulary, L layers.
"""

from collections.abc import Iterator
from math import prod

from workings.config.training import BYTES_OF_FORMAT
from workings.engines.base import ANSWERING, EngineRequest, ProgramName
from workings.models.weights import EMBEDDING, HEAD, RESIDUAL, layer_shapes, outer_shapes

INPUT_SPLIT = tuple(f"{name}.weight" for name in RESIDUAL)
"""Matrices whose input axis is split over ``tp``; all others split their output axis."""
BATCH_FIELDS = 5
"""Arrays of a batch (tokens, targets, weights, positions, segment ids) beside the objective's signals, four bytes an
element."""
DRAWN_ARRAYS = 3
"""Arrays of all logits' size while a token is drawn: the logits, noise, and their sum."""
FEED_FORWARD_POSITIONS, FEED_FORWARD_CHUNKS = 2048, 8
"""Least positions of a chunk and most chunks of a recomputed layer's feed-forward."""
QUERIES = 256
"""Query positions whose scores exist at one time with chunked attention."""
NF4_BLOCK = 64
"""Elements of a 4-bit matrix that share a scale of four bytes."""


Shapes = list[tuple[tuple[int, ...], int]]
"""One device's piece of each tensor, and how many tensors have it."""


def local_shapes(request: EngineRequest, fsdp: int, tp: int) -> Iterator[tuple[tuple[int, ...], int]]:
    """One device's piece of each tensor, and how many tensors have it; an axis that does not divide is left whole."""
    for name, size in outer_shapes(request.shape).items():
        yield _local(name, size, fsdp, tp), 1
    for name, size in layer_shapes(request.shape).items():
        yield _local(name, size, fsdp, tp), request.shape.layers


def _local(name: str, size: tuple[int, ...], fsdp: int, tp: int) -> tuple[int, ...]:
    # Norms and biases lie whole on every device: they are too small for splitting to matter.
    if len(size) < 2:
        return size
    if name in (EMBEDDING, HEAD):
        return (size[0] // (fsdp * tp), size[1]) if size[0] % (fsdp * tp) == 0 else size
    axes = (fsdp, tp) if name in INPUT_SPLIT else (tp, fsdp)
    return tuple(length // axis if length % axis == 0 else length for length, axis in zip(size, axes, strict=True))


def adapter_shapes(request: EngineRequest, fsdp: int, tp: int) -> Shapes:
    """The same for adapters of LoRA and QLoRA: a thin matrix on either side of each chosen projection."""
    method = request.method
    if method.name == "full":
        return []
    found: Shapes = []
    for name, size in layer_shapes(request.shape).items():
        if len(size) == 2 and name.removesuffix(".weight").rpartition(".")[2] in method.target_modules:
            out, inner = size
            both, one = (tp, fsdp), (fsdp,)  # the projection's own split, and `fsdp` on the side that it leaves whole
            split_in, split_out = (both, one) if name.endswith(INPUT_SPLIT) else (one, both)
            found += [((method.rank, _piece(inner, split_in)), request.shape.layers),
                      ((_piece(out, split_out), method.rank), request.shape.layers)]
    return found


def _piece(length: int, axes: tuple[int, ...]) -> int:
    """A device's piece of an axis that is split by as many of the mesh's axes, from the front, as divide it."""
    while axes and length % prod(axes):
        axes = axes[:-1]
    return length // prod(axes)


def _frozen_bytes(request: EngineRequest, shapes: Shapes) -> int:
    """Bytes of weights as they are stored; with QLoRA the layers' matrices have four bits and a scale for every 64."""
    stored = BYTES_OF_FORMAT[request.precision.parameters]
    if request.method.name != "qlora":
        return stored * sum(prod(size) * count for size, count in shapes)
    # A count above 1 means tensors of the layers: embedding and head are not quantized.
    four_bit = [(size, count) for size, count in shapes if count > 1 and len(size) == 2]
    rest = sum(prod(size) * count for size, count in shapes) - sum(prod(size) * count for size, count in four_bit)
    return stored * rest + sum(count * (prod(size) // 2 + 4 * (prod(size) // NF4_BLOCK)) for size, count in four_bit)


def exact_parts(request: EngineRequest, batch: tuple[int, int, int], fsdp: int, tp: int) -> dict[str, int]:
    """Bytes per device of parameters, moments, gradients and batch, from shapes, formats and the mesh alone."""
    shapes, adapters = list(local_shapes(request, fsdp, tp)), adapter_shapes(request, fsdp, tp)
    trained = adapters or shapes
    elements = sum(prod(size) * count for size, count in trained)
    # Adapters are trained in float32, whatever the frozen weights are stored in.
    stored = 4 if adapters else BYTES_OF_FORMAT[request.precision.parameters]
    moments = sum(count * request.optimizer.state_bytes(size, moments=request.precision.moments,
                                                        in_layer=bool(adapters) or count > 1)
                  for size, count in trained)
    parts = {
        "parameters": _frozen_bytes(request, shapes) + (4 * elements if adapters else 0),
        "moments": moments,
        "gradients": elements * stored,
        "batch": (BATCH_FIELDS + len(request.objective.signals)) * 4 * batch[0] * batch[1] // fsdp * batch[2],
    }
    if request.precision.rounding == "master_fp32":
        parts["master weights"] = 4 * elements
    # The sum of the micro batches so far lies beside the gradients of the one at hand.
    if batch[0] > 1:
        parts["gradient accumulator"] = elements * stored
    return parts


def checkpoint_bytes(request: EngineRequest) -> int:
    """Bytes of one checkpoint over all devices: what is trained, its optimizer state, and fp32 master weights."""
    parts = exact_parts(request, (1, 1, 1), 1, 1)
    # Gradients are as many and as large as the parameters that they belong to; with adapters those alone are saved.
    return parts["gradients"] + parts["moments"] + parts.get("master weights", 0)


def estimated_parts(request: EngineRequest, batch: tuple[int, int, int], fsdp: int, tp: int,
                    platform: str) -> dict[str, int]:
    """Bytes per device of what lives only inside a step, by formula. A compiler may do better or worse."""
    shape, memory = request.shape, request.memory
    number = BYTES_OF_FORMAT[request.precision.compute]
    rows, length = batch[1] // fsdp, batch[2]
    tokens = rows * length
    heads = 4 * shape.width + (2 * shape.heads + 2 * shape.kv_heads) * shape.head_dim // tp
    # Recomputed layers run their feed-forward in at most eight chunks of at least 2048 positions.
    chunked = max(min(tokens, FEED_FORWARD_POSITIONS), tokens // FEED_FORWARD_CHUNKS)
    wide = chunked if memory.remat == "layer" else tokens
    inner = number * (tokens * heads + wide * 3 * shape.mlp_width // tp)
    kept = shape.layers * tokens * shape.width * number if memory.remat == "layer" else shape.layers * inner
    scores = 4 * rows * max(1, shape.heads // tp) * _score_elements(request, length, platform)
    alive = shape.layers if memory.remat == "none" else 2
    devices = fsdp * tp
    chunk = min(memory.loss_chunk or tokens, tokens)
    # Where the vocabulary divides, each device has a slice of it and computes the logits of all devices' rows.
    parallel = devices > 1 and shape.vocab_size % devices == 0
    # The factor of two: the logits, and their gradient beside them, in float32.
    logits = 2 * 4 * chunk * (fsdp if parallel else 1) * (shape.vocab_size // devices if parallel else shape.vocab_size)
    trains_head = request.method.name == "full"
    head_gradient = 4 * shape.vocab_size * shape.width // (devices if parallel else 1) if trains_head else 0
    parts = {"activations": kept + 2 * inner, "attention scores": alive * scores,
             "logits": logits, "head gradient in fp32": head_gradient}
    if fsdp > 1:
        layer = sum(prod(size) for size in layer_shapes(shape).values())
        parts["gathered weights of two layers"] = 2 * layer * number // tp
    return parts


def _score_elements(request: EngineRequest, length: int, platform: str) -> int:
    """Elements of one head's scores that exist at one time."""
    asked: str = request.memory.attention
    if asked == "auto":
        asked = {"tpu": "flash", "gpu": "chunked"}.get(platform, "plain")
    return {"plain": length * length, "chunked": min(QUERIES, length) * length, "flash": 0}[asked]


def estimated_peak(request: EngineRequest, batch: tuple[int, int, int], fsdp: int, tp: int, platform: str) -> int:
    """Closed-form estimate of a step's peak, bytes per device."""
    return sum(exact_parts(request, batch, fsdp, tp).values()) + sum(
        estimated_parts(request, batch, fsdp, tp, platform).values())


def beside_the_step(request: EngineRequest, program: ProgramName, batch: tuple[int, int, int], fsdp: int, tp: int,
                    platform: str) -> dict[str, int]:
    """Bytes per device while the run computes anything but a step, by formula; the optimizer's state lies beside."""
    shape, number = request.shape, BYTES_OF_FORMAT[request.precision.compute]
    # No gradients, but everything that waits in memory for the next step.
    state = {name: size for name, size in exact_parts(request, (1, fsdp, 1), fsdp, tp).items()
             if name in ("parameters", "moments", "master weights")}
    rows, length = (-(-batch[0] // fsdp), batch[1]) if program in ANSWERING else (batch[1] // fsdp, batch[2])
    layer = number * rows * length * (4 * shape.width + 3 * shape.mlp_width // tp)
    scores = 4 * rows * max(1, shape.heads // tp) * _score_elements(request, length, platform)
    inside = {"activations of the layer at hand": layer, "attention scores": scores}
    if fsdp > 1:
        inside["gathered weights of two layers"] = 2 * number * sum(map(prod, layer_shapes(shape).values())) // tp
    if program in ANSWERING:
        slots = shape.layers * rows * (batch[1] + batch[2])
        return state | inside | {"logits": 4 * (DRAWN_ARRAYS if program == "drawing" else 1) * rows * shape.vocab_size,
                                 "cache of keys and values": 2 * number * slots * shape.kv_heads * shape.head_dim}
    chunk = min(request.memory.loss_chunk or rows * length, rows * length)
    return state | inside | {"logits": 2 * 4 * chunk * shape.vocab_size}
