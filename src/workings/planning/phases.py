"""What lives only inside a step, by formula: an estimate for one device. A compiler may do better or worse.

A step has three phases that never need their memory at the same time: the loss, the backward pass of a layer, and the
gradient of the embedding. The one that needs the most counts. What `benchmarks.what_fits` compiled is the measure.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from workings.config.training import BYTES_OF_FORMAT
from workings.engines.base import EngineRequest, ProgramShape
from workings.models.weights import EMBEDDING, HEAD, projections
from workings.planning.parts import (
    FEED_FORWARD_CHUNKS,
    FEED_FORWARD_POSITIONS,
    WEIGHTS_AT_HAND,
    exact_parts,
    feed_forward_numbers,
    handed_to_layers,
    inside_state,
    score_elements,
    weights_at_hand,
)
from workings.planning.tensors import INPUT_SPLIT, Tensor, local_tensors, trained_tensors

TABLES = (EMBEDDING, HEAD)
KERNEL_MULTIPLE = 128
"""A GPU's kernels want the axis that they add up along to be a multiple of this, and copy a matrix to pad it."""


def estimated_parts(request: EngineRequest, batch: ProgramShape, fsdp: int, tp: int,
                    platform: str) -> dict[str, int]:
    """Bytes per device of the phase of a step that needs the most; `gradients` are those that exist in it."""
    _, rows, positions = batch
    device = _Device(request=request, rows=rows // fsdp, length=positions, fsdp=fsdp, tp=tp, platform=platform)
    phases = [device.loss(), device.layer()]
    if device.full:
        phases.append(device.embedding())
    return max(phases, key=lambda parts: sum(parts.values()))


def estimated_step(request: EngineRequest, batch: ProgramShape, fsdp: int, tp: int,
                   platform: str) -> dict[str, int]:
    """Bytes per device of a whole step by part: what is exact, and the phase that needs the most."""
    return exact_parts(request, batch, fsdp, tp) | estimated_parts(request, batch, fsdp, tp, platform)


@dataclass(frozen=True, kw_only=True)
class _Device:
    """One device's share of a step of one micro batch of ``rows`` sequences."""

    request: EngineRequest
    rows: int
    length: int
    fsdp: int
    tp: int
    platform: str

    @property
    def full(self) -> bool:
        return self.request.method.name == "full"

    @property
    def tokens(self) -> int:
        return self.rows * self.length

    @property
    def computed(self) -> int:
        """Bytes of a number in products."""
        return BYTES_OF_FORMAT[self.request.precision.compute]

    @property
    def stored(self) -> int:
        """Bytes of a stored weight."""
        return BYTES_OF_FORMAT[self.request.precision.parameters]

    @property
    def split(self) -> int:
        """Devices that share the vocabulary: all where it divides, else each has all of it."""
        devices = self.fsdp * self.tp
        return devices if self.request.shape.vocab_size % devices == 0 else 1

    @property
    def vocabulary(self) -> int:
        """Tokens whose logits this device computes."""
        return self.request.shape.vocab_size // self.split

    @property
    def table(self) -> int:
        """Numbers of this device's part of the embedding, or of the head."""
        return self.vocabulary * self.request.shape.width

    def loss(self) -> dict[str, int]:
        """No layer has a gradient yet, and none is at work."""
        chunk = min(self.request.memory.loss_chunk or self.tokens, self.tokens)
        # Devices that share the vocabulary compute their slice for the positions of all of them.
        positions = chunk * (self.fsdp if self.split > 1 else 1)
        # Logits are float32. A GPU writes their gradient beside them in the format of the products; a TPU computes it
        # again on the way into each product.
        number = 4 if self.platform == "tpu" else 4 + self.computed
        return {"gradients": 0, **self._all_along(), "logits": positions * self.vocabulary * number,
                "copy of the head for products": self._head_copy()}

    def layer(self) -> dict[str, int]:
        """The backward pass of a layer, while the gradients of all layers have their memory already."""
        return {"gradients": self._layer_gradients(), **self._all_along(), **self._at_work(),
                WEIGHTS_AT_HAND: weights_at_hand(self.request, self.tokens, self.fsdp, self.tp)}

    def embedding(self) -> dict[str, int]:
        """The gradient of the looked up embeddings, which comes last: a table beside the gradient that the head has."""
        # Added up in the format of the products, then rounded to that of the weights.
        number = self.stored + (self.computed if self.computed != self.stored else 0)
        return {"gradients": self._layer_gradients(), **self._all_along(),
                "gradient of the embedding": number * self.table}

    def _all_along(self) -> dict[str, int]:
        """What all three phases have: compilers free none of it before the last one ends."""
        # The head's gradient is a float32 sum over chunks of positions, to which the embedding's is added at the end.
        return {"activations kept for backward": self._kept(), "head gradient in fp32": 4 * self.table * self.full,
                "weights laid out for gathering": self._laid_out()}

    def _layer_gradients(self) -> int:
        layers = (each for each in trained_tensors(self.request, self.fsdp, self.tp) if each.name not in TABLES)
        number = self.stored if self.full else 4  # adapters are trained in float32
        return number * sum(each.elements for each in layers)

    def _head_copy(self) -> int:
        """Bytes of the head in the format and size that its products want, where it is stored otherwise."""
        if self.computed != self.stored:
            return self.computed * self.table
        padded = self.platform == "gpu" and self.vocabulary % KERNEL_MULTIPLE
        return self.computed * self.table if padded else 0

    def _kept(self) -> int:
        """Bytes of what the layers keep for backward: their inputs, or all that is inside of them."""
        shape = self.request.shape
        if self.request.memory.remat == "layer":
            return self.computed * shape.layers * self.tokens * shape.width
        scores = self._scores() * shape.layers if self.request.memory.remat == "none" else 0
        return sum(map(self._inside, range(shape.layers))) + scores

    def _at_work(self) -> dict[str, int]:
        """Of the widest layer, what is inside of it and the gradients of that; and one layer's scores."""
        shape = self.request.shape
        widest = max(map(self._inside, range(shape.layers)))
        return {"activations of the layer at hand": 2 * widest + self.computed * self.tokens * handed_to_layers(shape),
                "attention scores": self._scores()}

    def _inside(self, layer: int) -> int:
        """Bytes of one layer's activations. Recomputed layers run their feed-forward in chunks of positions."""
        shape, tokens = self.request.shape, self.tokens
        chunked = max(min(tokens, FEED_FORWARD_POSITIONS), tokens // FEED_FORWARD_CHUNKS)
        wide = chunked if self.request.memory.remat == "layer" else tokens
        feed_forward = self.computed * wide * feed_forward_numbers(shape, layer, self.tp)
        if shape.is_linear(layer):
            return tokens * (self.computed * 4 * shape.width + inside_state(shape)) + feed_forward
        keys = 0 if shape.shares_keys(layer) else shape.kv_heads_of(layer)
        numbers = 4 * shape.width + (2 * shape.heads + 2 * keys) * shape.head_dim_of(layer) // self.tp
        return self.computed * tokens * numbers + feed_forward

    def _scores(self) -> int:
        heads = max(1, self.request.shape.heads // self.tp)
        return 4 * self.rows * heads * score_elements(self.request, self.length, self.platform)

    def _laid_out(self) -> int:
        """Bytes of the copies of split matrices whose split axis is not their first in memory.

        GPUs gather along the first axis alone, and the compiler turns all layers' matrices before the first of them.
        """
        if self.platform != "gpu" or self.fsdp == 1:
            return 0
        # Four bits lie the other way round, with the input axis first.
        quantized = self.request.method.name == "qlora"
        turned = [each for each in self._projections() if each.name.endswith(INPUT_SPLIT) == quantized]
        elements = sum(each.elements for each in turned)
        return elements * 9 // 16 if quantized else elements * self.stored

    def _projections(self) -> Iterator[Tensor]:
        names = {f"{name}.weight" for name in projections(self.request.shape)}
        return (each for each in local_tensors(self.request.shape, self.fsdp, self.tp) if each.name in names)
