"""What a step takes in each of two processes that `torchrun` started; the first prints one JSON object.

Usage: python -m torch.distributed.run --standalone --nproc-per-node 2 -m tests.engines.torch_two_processes_memory. By
case: peak of live storages as they are followed (in pages and in bytes), and as PyTorch's profiler counts what its CPU
allocator gives.
"""

import json
import sys
from typing import Any

import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile

from tests.engines.tiny import request, tiny_shape
from workings.config.method import LoraConfig
from workings.config.training import AdafactorConfig, AdamWConfig, MemoryConfig, MeshConfig, PrecisionConfig
from workings.engines.base import EngineRequest
from workings.engines.torch.engine import TorchEngine
from workings.engines.torch.sharding import local
from workings.engines.torch.step import State
from workings.engines.torch.trace.allocator import PAGE, live_peak
from workings.engines.torch.trace.inspect import follow
from workings.engines.torch.trace.programs import step
from workings.models.batch import BatchShape

SIZE = BatchShape(1, 4, 64)
WIDE = {"width": 128, "mlp_width": 384, "head_dim": 32}
SHAPE = tiny_shape("gemma2", vocab=3000, layers=4, **WIDE)
CASES: dict[str, dict[str, Any]] = {
    "adamw": {"optimizer": AdamWConfig(name="adamw", clip_norm=1.0),
              "memory": MemoryConfig(remat="layer", loss_chunk=32)},
    "adafactor": {"optimizer": AdafactorConfig(name="adafactor"), "memory": MemoryConfig(loss_chunk=32),
                  "precision": PrecisionConfig(parameters="bf16", compute="fp32", rounding="stochastic")},
    "lora": {"method": LoraConfig(name="lora", rank=8), "optimizer": AdamWConfig(name="adamw"),
             "memory": MemoryConfig(remat="layer", loss_chunk=32)},
}


def ask(case: str) -> EngineRequest:
    """The request of a case, on two processes."""
    return request(SHAPE, mesh=MeshConfig(fsdp=2), **CASES[case])


def state_bytes(state: State) -> int:
    """What is alive before the first step."""
    tensors = [*state.model.parameters(), *state.model.buffers(), *(x for of in state.moments.values()
                                                                    for x in of.values())]
    return sum({local(x).untyped_storage()._cdata: local(x).untyped_storage().nbytes() for x in tensors}.values())


def allocated_peak(opened: TorchEngine, state: State) -> int:
    """Peak of what the allocator gives during two steps, next to the state."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        step(opened.spec, state, SIZE)
    total = peak = 0
    events = [event for event in seen.profiler.kineto_results.events() if event.name() == "[memory]"]
    for event in sorted(events, key=lambda event: event.start_ns()):
        total += event.nbytes()
        peak = max(peak, total)
    return peak


def measure(case: str) -> dict[str, int]:
    """One case in this process."""
    opened = TorchEngine.open(ask(case))
    state = opened.init(0)
    before = state_bytes(state)
    log = follow(state, lambda: step(opened.spec, state, SIZE))
    state = opened.init(0)
    return {"pages": live_peak(log.events, PAGE).size, "followed": live_peak(log.events, 1).size,
            "allocated": before + allocated_peak(opened, state)}


if __name__ == "__main__":
    torch.set_num_threads(1)
    found = measure(sys.argv[1])
    if dist.get_rank() == 0:
        sys.stdout.write(json.dumps(found) + "\n")
    dist.barrier()
    dist.destroy_process_group()
