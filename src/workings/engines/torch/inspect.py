"""What a step needs, from the shapes of its tensors."""

from importlib.metadata import version
from math import prod

from workings.engines.base import EngineRequest, Inspection
from workings.engines.torch.spec import TorchSpec, dtype_name
from workings.models.weights import tensor_shapes


def inspection(spec: TorchSpec, request: EngineRequest, batch: tuple[int, ...]) -> Inspection:
    """Bytes by formula, no step was traced: parameters, moments, gradients, kept activations, logits.

    Args:
        spec: of the step.
        request: that the spec was made for.
        batch: ``(A, B, S)``.
    """
    shape, number = spec.shape, spec.compute_dtype.itemsize
    elements = sum(prod(size) for size in tensor_shapes(shape).values())
    tokens = batch[1] // spec.mesh.fsdp * batch[2]
    layer = tokens * (4 * shape.width + 2 * (shape.heads + shape.kv_heads) * shape.head_dim + 3 * shape.mlp_width)
    kept = shape.layers * tokens * shape.width + layer if spec.checkpointing else shape.layers * layer
    stored = spec.parameter_dtype.itemsize
    moments = 2 * elements if request.optimizer.name == "adamw" else sum(
        sum(size) for size in tensor_shapes(shape).values())
    parts = {"parameters": elements * stored // spec.mesh.fsdp, "moments": moments * 4 // spec.mesh.fsdp,
             "gradients": elements * stored // spec.mesh.fsdp, "activations": kept * number,
             "logits": 2 * 4 * min(spec.loss_chunk or tokens, tokens) * shape.vocab_size}
    return Inspection(peak_bytes=sum(parts.values()), source="estimated", breakdown=parts,
                      versions={"torch": version("torch")},
                      details={"batch": list(batch), "parameter_dtype": dtype_name(spec.parameter_dtype)})
