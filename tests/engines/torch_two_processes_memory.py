"""What a step takes in each of two processes that `torchrun` started; the first prints one JSON object.

Usage: python -m torch.distributed.run --standalone --nproc-per-node 2 -m tests.engines.torch_two_processes_memory CASE.
"""

import json
import sys
from typing import Any

import torch
import torch.distributed as dist

from tests.engines.tiny import request, tiny_shape
from workings.config.method import LoraConfig
from workings.config.training import AdafactorConfig, AdamWConfig, MemoryConfig, MeshConfig, PrecisionConfig
from workings.engines.base import EngineRequest
from workings.engines.torch.engine import TorchEngine
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


if __name__ == "__main__":
    torch.set_num_threads(1)
    opened = TorchEngine.open(ask(sys.argv[1]))
    state = opened.init(0)
    log = follow(state, lambda: step(opened.spec, state, SIZE))
    if dist.get_rank() == 0:
        sys.stdout.write(json.dumps({"peak": live_peak(log.events, PAGE).size}) + "\n")
    dist.barrier()
    dist.destroy_process_group()
