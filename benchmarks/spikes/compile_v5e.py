"""Compile this package's own training step for a TPU v5e-8 that is not here and print the compiler's memory.

    python -m benchmarks.spikes.compile_v5e MODEL OPTIMIZER ROWS LENGTH [rounding=stochastic] [clip=1] [chunk=N]
        [accumulation=N] [devices=N] [remat=layer] [attention=auto] [layers=N] [moments=fp32]
        [method=lora|qlora] [rank=16]

Prints one JSON object: peak GiB per chip, the floor, seconds, the largest arrays of the compiled module.
"""

import json
import sys
from dataclasses import replace
from typing import Any

from pydantic import TypeAdapter

from workings.config.method import MethodConfig
from workings.config.training import AdafactorConfig, AdamWConfig, MemoryConfig, MeshConfig, PrecisionConfig
from workings.engines.base import EngineRequest
from workings.engines.jax.target import compile_for
from workings.hardware.catalog import compile_target, find_target
from workings.models.batch import BatchShape
from workings.models.shapes import published_shape
from workings.planning.memory_formulas import exact_parts

GIB = 2 ** 30
CHIPS = 8
"""Of a v5e-8."""


def main(model: str, optimizer: str, rows: str, length: str, *options: str) -> None:
    """One compilation."""
    option = {"rounding": "nearest", "clip": "0", "chunk": "128", "accumulation": "1", "devices": "0",
              "remat": "layer", "attention": "auto", "layers": "0", "moments": "bf16", "tp": "1",
              "method": "full", "rank": "16"}
    option |= dict(pair.split("=", 1) for pair in options)
    shape = published_shape(model)
    if int(option["layers"]):
        shape = replace(shape, layers=int(option["layers"]))
    rule = {"adamw": AdamWConfig, "adafactor": AdafactorConfig}[optimizer](
        name=optimizer, clip_norm=float(option["clip"]))
    adapter = {"rank": int(option["rank"]), "alpha": 32.0} if option["method"] != "full" else {}
    method: Any = TypeAdapter(MethodConfig).validate_python({"name": option["method"], **adapter})
    tp, devices = int(option["tp"]), int(option["devices"]) or CHIPS
    fsdp = devices // tp
    request = EngineRequest(
        shape=shape, method=method, device="tpu", optimizer=rule, mesh=MeshConfig(fsdp=fsdp, tp=tp),
        precision=PrecisionConfig(parameters="bf16", compute="bf16", moments=option["moments"],
                                  rounding=option["rounding"]),
        memory=MemoryConfig(attention=option["attention"], remat=option["remat"], loss_chunk=int(option["chunk"])))
    batch = BatchShape(int(option["accumulation"]), int(rows), int(length))
    found = compile_for(request, batch, compile_target(find_target("v5e-8")))
    state = sum(size for name, size in found.exact.items() if name != "batch")
    parts = exact_parts(request, batch, fsdp, tp)
    deeper = replace(request, shape=replace(shape, layers=shape.layers + 1))
    layer = exact_parts(deeper, batch, 1, 1)["parameters"] - exact_parts(request, batch, 1, 1)["parameters"]
    # What every implementation needs: the state, the gradients and one layer's gathered weights.
    floor = state + parts["gradients"] + (layer if fsdp > 1 else 0)
    print(json.dumps({
        "command": " ".join(["python -m benchmarks.spikes.compile_v5e", *sys.argv[1:]]),
        "peak_gib": round(found.peak_bytes / GIB, 3), "refused": found.refused or "no",
        "floor_gib": round(floor / GIB, 3),
        "breakdown_gib": {name: round(size / GIB, 3) for name, size in found.breakdown.items()},
        "versions": dict(found.versions), "batch": list(batch), "mesh": {"fsdp": fsdp, "tp": tp},
        **{f"{name}_seconds": value for name, value in found.seconds.items()}}))


if __name__ == "__main__":
    main(*sys.argv[1:])
