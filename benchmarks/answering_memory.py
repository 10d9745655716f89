"""What answering needs next to weights, moments and the cache of keys and values, by compilers and traces alone.

    python -m benchmarks.answering_memory

Prompts of 2,048 tokens are read and 256 tokens of each are written. Writes `benchmarks/results/answering_memory.json`.
Exits with 1 where a case needs more than a tenth more, and with 3 where a compiler is not installed.
"""

import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path

from tools.result_file import load_average, write_result
from workings.config.method import FullConfig, LoraConfig
from workings.config.training import AdamWConfig, MemoryConfig, MeshConfig, PrecisionConfig
from workings.engines.base import EngineRequest, GenerationShape
from workings.engines.registry import find_planning_engine
from workings.hardware.catalog import find_target
from workings.models.shape import ModelShape
from workings.models.shapes import published_shape

RESULT = Path(__file__).parent / "results" / "answering_memory.json"
COMPILERS = ("libtpu", "jax_cuda12_plugin")
PROMPT, NEW = 2048, 256
CASES = (("jax", "gemma-3-4b", "lora", 16, "rtx5090"), ("jax", "gemma-3-4b", "lora", 64, "h200"),
         ("torch", "gemma-3-4b", "lora", 16, "rtx5090"), ("torch", "gemma-3-4b", "lora", 64, "h200"),
         ("jax", "gemma-2b", "full", 64, "v5e-1"), ("jax", "gemma-3-4b", "lora", 16, "v5e-1"))
"""Engine, model, method, prompts, machine."""
GOAL = 1.1


def cache_bytes(engine: str, shape: ModelShape, prompts: int) -> int:
    """Bytes of all keys and values in bfloat16; on JAX a sliding layer keeps no more tokens than its window."""
    total = 0
    for layer in (layer for layer in range(shape.layers) if not shape.shares_keys(layer)):
        window = shape.sliding_window if engine == "jax" and shape.slides(layer) else PROMPT + NEW
        total += min(window, PROMPT + NEW) * shape.kv_heads_of(layer) * shape.head_dim_of(layer) * 2 * 2
    return prompts * total


def measure(engine: str, model: str, method: str, prompts: int, machine: str) -> Mapping[str, float | str]:
    """One case: bytes at the peak, and times weights, moments and cache; what CUDA itself takes is left out."""
    shape, target = published_shape(model), find_target(machine)
    request = EngineRequest(
        shape=shape, device=target.platform, optimizer=AdamWConfig(name="adamw"), seed=0,
        precision=PrecisionConfig(parameters="bf16", compute="bf16"), memory=MemoryConfig(),
        mesh=MeshConfig(fsdp=1, tp=1),
        method=LoraConfig(name="lora", rank=16, alpha=32) if method == "lora" else FullConfig(name="full"))
    planner = find_planning_engine(engine)
    assert planner is not None
    found = planner.inspect_for(request, {"generation": GenerationShape(prompts, PROMPT, NEW)}, target)["generation"]
    peak = found.peak_bytes - sum(found.breakdown[name] for name in found.assumed)
    known = found.exact or found.breakdown
    held = known["parameters"] + known["moments"]
    cache = cache_bytes(engine, shape, prompts)
    print(engine, model, method, prompts, machine, f"{peak / (held + cache):.3f}", found.refused, flush=True)
    return {"source": found.source, "peak_bytes": peak, "weights_and_moments_bytes": held, "cache_bytes": cache,
            "peak_over_weights_moments_and_cache": peak / (held + cache)}


def main() -> int:
    """Compile and trace, write, judge."""
    if missing := [name for name in COMPILERS if importlib.util.find_spec(name) is None]:
        print(f"not measured: {', '.join(missing)} not installed")
        return 3
    before = load_average()
    values = {f"{engine}: {model}, {method}, {prompts} prompts, {machine}": measure(
        engine, model, method, prompts, machine) for engine, model, method, prompts, machine in CASES}
    write_result(RESULT, what="Memory of answering next to weights, moments and cache, without the machines.",
                 command="python -m benchmarks.answering_memory", values=values,
                 packages=("jax", "jaxlib", "libtpu", "jax-cuda12-plugin", "torch", "transformers"), load_before=before)
    worst = max(float(case["peak_over_weights_moments_and_cache"]) for case in values.values())
    return int(worst > GOAL)


if __name__ == "__main__":
    sys.exit(main())
