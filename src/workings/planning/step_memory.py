"""Estimated memory of a training step, in bytes per device. A compiled step may need more or less.

A step has three phases, one after the other: the loss, the backward pass of each layer, and the gradient of the
embedding. The phase that needs the most memory decides. The formulas were fitted to the compiled steps of
`benchmarks.what_fits`.
"""

from workings.engines.base import EngineRequest, ProgramShape
from workings.models.family import EMBEDDING, HEAD
from workings.models.registry import family_of
from workings.planning.forward_memory import FEED_FORWARD_CHUNKS, FEED_FORWARD_POSITIONS, LAYER_ARRAYS, LayerMemory
from workings.planning.memory_formulas import INPUT_SPLIT, local_tensors, trained_tensors

KERNEL_MULTIPLE = 128
"""GPU kernels pad the axis that they sum over to a multiple of this length; for that they copy the matrix."""


def largest_phase_parts(request: EngineRequest, batch: ProgramShape, fsdp: int, tp: int,
                    platform: str) -> dict[str, int]:
    """Bytes per device of the phase of a step that needs the most, by part.

    ``batch`` is (accumulation, rows of a micro batch, positions), as in `BatchShape`. The part ``gradients`` counts the
    gradients that exist in this phase.
    """
    _, rows, positions = batch
    device = _DeviceStep(request=request, rows=rows // fsdp, length=positions, fsdp=fsdp, tp=tp, platform=platform)
    phases = [device.loss_phase(), device.layer_phase()]
    if request.method.trains_all_weights:
        phases.append(device.embedding_phase())
    return max(phases, key=lambda parts: sum(parts.values()))


class _DeviceStep(LayerMemory):
    """One device's part of a step: ``rows`` sequences of ``length`` tokens in each micro batch."""

    @property
    def vocabulary_shards(self) -> int:
        devices = self.fsdp * self.tp
        # Engines copy a vocabulary that cannot be divided evenly to every device.
        return devices if self.shape.vocab_size % devices == 0 else 1

    @property
    def local_vocabulary(self) -> int:
        return self.shape.vocab_size // self.vocabulary_shards

    @property
    def table_elements(self) -> int:
        """Elements of the embedding or the head on one device."""
        return self.local_vocabulary * self.shape.width

    def loss_phase(self) -> dict[str, int]:
        """Parts of the loss: no layer has a gradient yet, or is being computed."""
        chunk = min(self.request.memory.loss_chunk or self.tokens, self.tokens)
        # Devices that share the vocabulary compute their slice for the positions of all of them.
        positions = chunk * (self.fsdp if self.vocabulary_shards > 1 else 1)
        # Logits are float32. A GPU also stores their gradient, in the format of the products. A TPU computes the
        # gradient again for each product.
        element_bytes = 4 if self.platform == "tpu" else 4 + self.compute_bytes
        return {"gradients": 0, **self._parts_of_all_phases(),
                "logits": positions * self.local_vocabulary * element_bytes,
                "copy of the head for products": self._head_copy_bytes()}

    def layer_phase(self) -> dict[str, int]:
        """Parts of the backward pass of the widest layer; memory for the gradients of all layers is taken already."""
        widest = max(map(self._layer_activation_bytes, range(self.shape.layers)))
        step_long = self.compute_bytes * self.tokens * self.step_long_elements_per_token()
        # Activations exist together with their gradients.
        return {"gradients": self._layer_gradient_bytes(), **self._parts_of_all_phases(),
                "activations of the layer at hand": 2 * widest + step_long, **self.weights_and_scores()}

    def embedding_phase(self) -> dict[str, int]:
        """Parts of the gradient of the input embeddings, which comes last; the gradient of the head exists as well."""
        # The gradient is added up in the format of the products and then rounded to that of the weights.
        is_rounded = self.compute_bytes != self.stored_bytes
        element_bytes = self.stored_bytes + self.compute_bytes if is_rounded else self.stored_bytes
        return {"gradients": self._layer_gradient_bytes(), **self._parts_of_all_phases(),
                "gradient of the embedding": element_bytes * self.table_elements}

    def _parts_of_all_phases(self) -> dict[str, int]:
        """Parts that exist in all three phases: compilers free them after the last one."""
        # The head's gradient is a float32 sum over chunks of positions. The embedding's gradient is added at the end.
        return {"activations kept for backward": self._kept_activation_bytes(),
                "head gradient in fp32": 4 * self.table_elements * self.request.method.trains_all_weights,
                "weights laid out for gathering": self._layout_copy_bytes()}

    def _layer_gradient_bytes(self) -> int:
        layers = [tensor for tensor in trained_tensors(self.request, self.fsdp, self.tp)
                  if tensor.name not in (EMBEDDING, HEAD)]
        # Adapters are trained in float32.
        element_bytes = self.stored_bytes if self.request.method.trains_all_weights else 4
        return element_bytes * sum(tensor.elements for tensor in layers)

    def _head_copy_bytes(self) -> int:
        """Bytes of a copy of the head in the format and size of its products; 0 if the stored head serves as it is."""
        is_converted = self.compute_bytes != self.stored_bytes
        is_padded = self.platform == "gpu" and self.local_vocabulary % KERNEL_MULTIPLE != 0
        return self.compute_bytes * self.table_elements if is_converted or is_padded else 0

    def _kept_activation_bytes(self) -> int:
        """Bytes of activations kept for backward: inputs of the layers, or all activations inside them."""
        layers, remat = self.shape.layers, self.request.memory.remat
        if remat == "layer":
            return self.compute_bytes * layers * self.tokens * self.shape.width
        scores = self.score_bytes() * layers if remat == "none" else 0
        return sum(map(self._layer_activation_bytes, range(layers))) + scores

    def _layer_activation_bytes(self, layer: int) -> int:
        """Bytes of one layer's activations."""
        shape, feed_forward_tokens = self.shape, self.tokens
        if self.request.memory.remat == "layer":
            # Recomputed layers run their feed-forward in chunks (`engines/jax/feed_forward.py`).
            feed_forward_tokens = max(min(self.tokens, FEED_FORWARD_POSITIONS), self.tokens // FEED_FORWARD_CHUNKS)
        feed_forward = self.compute_bytes * feed_forward_tokens * self.feed_forward_elements(layer)
        if shape.is_linear(layer):
            return feed_forward + self.tokens * (
                self.compute_bytes * LAYER_ARRAYS * shape.width + self.linear_attention_bytes_per_token())
        # Queries and attended values have all heads; keys and values have their own number.
        kv_heads = 0 if shape.shares_keys(layer) else shape.kv_heads_of(layer)
        head_elements = (2 * shape.heads + 2 * kv_heads) * shape.head_dim_of(layer) // self.tp
        return feed_forward + self.compute_bytes * self.tokens * (LAYER_ARRAYS * shape.width + head_elements)

    def _layout_copy_bytes(self) -> int:
        """Bytes of transposed copies of the matrices that ``fsdp`` does not split along their first axis in memory."""
        # GPUs gather along the first axis only, and the compiler transposes the matrices of all layers in advance.
        if self.platform != "gpu" or self.fsdp == 1:
            return 0
        names = {f"{name}.weight" for name in family_of(self.shape).projections}
        # Matrices in four bits are stored transposed, with the input axis first.
        in_four_bits = self.request.method.name == "qlora"
        elements = sum(tensor.elements for tensor in local_tensors(self.shape, self.fsdp, self.tp)
                       if tensor.name in names and tensor.name.endswith(INPUT_SPLIT) == in_four_bits)
        # Half a byte an element, and a scale of four bytes for each block of 64.
        return elements * 9 // 16 if in_four_bits else elements * self.stored_bytes
