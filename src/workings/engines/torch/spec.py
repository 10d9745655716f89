"""What the step of a request is made of: number formats, attention, optimizer, processes."""

from dataclasses import dataclass
from typing import Any

import torch

from workings.engines.base import EngineRequest
from workings.engines.torch.attention import choose
from workings.engines.torch.device import memory_limit
from workings.engines.torch.optimizers import make_optimizer
from workings.engines.torch.optimizers.base import Optimizer
from workings.engines.torch.sharding import ProcessMesh
from workings.engines.torch.triton.check import kernels_run_on
from workings.errors import RequestError
from workings.models.shape import ModelShape
from workings.objectives.base import OfCompletions

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True, kw_only=True)
class TorchSpec:
    """A request, and what the step is made of."""

    request: EngineRequest
    device: torch.device
    on_card: bool
    """Whether a CUDA GPU computes the step. A trace of such a step has the CPU as its ``device``."""
    device_bytes: int
    """Memory of the smallest of all processes' devices, or of the GPU that is traced."""
    mesh: ProcessMesh
    attention: str
    """A key of `attention.FUNCTIONS`."""
    group_by_length: bool
    """Rows of an update are computed in micro batches of similar length (`length_bucketing`)."""
    share_prefixes: bool
    """Equal prefixes of rows are computed once (`prefix_sharing`)."""
    card_kernels: bool
    """Whether the kernels of `triton` are used."""
    parameter_dtype: torch.dtype
    compute_dtype: torch.dtype
    """Format of activations."""
    product_dtype: torch.dtype
    """Format of the factors of products: ``compute_dtype``, or float16 while all else is float32."""
    optimizer: Optimizer

    @property
    def shape(self) -> ModelShape:
        """The model."""
        return self.request.shape

    @property
    def table_on_host(self) -> bool:
        """Whether the table of per-layer embeddings is in the host's memory."""
        return self.request.memory.per_layer_embeddings == "host"


def build_spec(request: EngineRequest, device: torch.device, mesh: ProcessMesh | None = None) -> TorchSpec:
    """The step that a request asks for. Raises `RequestError` for what this engine does not do."""
    precision, memory, shape = request.precision, request.memory, request.shape
    if memory.attention == "flash" and shape.attention_softcap:
        raise RequestError(f"memory.attention: flash does not cap scores, and a {shape.family} model needs that",
                           "a function that caps them", "memory.attention=chunked")
    mesh, objective = mesh or ProcessMesh(), request.objective
    # Several processes share each micro batch by rows, so what one of them saves the others would wait for.
    saves = mesh.processes == 1 and (device.type != "cpu" or memory.cpu_optimizations)
    # Equal prefixes are computed alike only without linear states, dropout and an unverified class's own attention.
    may_share = shape.verified and not shape.has_state and not request.method.dropout
    return TorchSpec(
        request=request, device=device, on_card=device.type == "cuda", mesh=mesh,
        # Processes on a CPU share its memory.
        device_bytes=mesh.least(memory_limit(device)[0] // (1 if device.type == "cuda" else mesh.processes), device),
        attention=choose(memory.attention, device.type, shape.attention_softcap),
        group_by_length=(saves and device.type == "cpu" and isinstance(objective, OfCompletions)
                         and objective.rows_may_move),
        share_prefixes=saves and isinstance(objective, OfCompletions) and may_share,
        card_kernels=kernels_run_on(device) and precision.compute != "fp16",
        parameter_dtype=DTYPES[precision.parameters], compute_dtype=DTYPES[precision.activations],
        product_dtype=DTYPES[precision.compute],
        optimizer=make_optimizer(request.optimizer, DTYPES[precision.moments]))


def dtype_name(dtype: Any) -> str:
    """``float32`` for ``torch.float32``."""
    return str(dtype).removeprefix("torch.")
