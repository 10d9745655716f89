"""Processor seconds that the TPU's compiler takes for a step on a v5e-8, and for the same step with a part left out.

    python -m benchmarks.compile_time [CASE ...]

The difference of two rows is what a part costs. No chip is needed. Only the cases that are named are compiled, or else
all; answers of an earlier call stay. Seconds are those of the whole child process; the row `nothing` has its imports.
Writes `benchmarks/results/compile_time.json`. Exits with 3 where the TPU compiler is not installed.
"""

import importlib.util
import subprocess
import sys
import time
from dataclasses import replace
from os import environ
from pathlib import Path
from typing import Any

from tools.result_file import earlier, load_average, measured, write_result
from workings.config.load import load_recipe
from workings.engines.base import ProgramName
from workings.engines.jax.target import compile_for, compiler_environment
from workings.hardware.catalog import compile_target, find_target
from workings.inputs.resolve import find_shape
from workings.planning.planned_run import engine_request, programs_of

FULL, LORA, LARGER = "gemma-4-e2b-v5e8", "gemma-4-e2b-lora-v5e8", "gemma-4-e4b-lora-v5e8"
CASES: dict[str, tuple[str, ProgramName, tuple[str, ...], dict[str, Any]]] = {
    "step": ("gemma-2b-v5e8", "step", (), {}),
    "without backward and update": ("gemma-2b-v5e8", "evaluation", ("evaluation.traces=eval",), {}),
    "nine of 18 layers": ("gemma-2b-v5e8", "step", (), {"layers": 9}),
    "vocabulary of 2048": ("gemma-2b-v5e8", "step", (), {"vocab_size": 2048}),
    "chunked attention": ("gemma-2b-v5e8", "step", ("memory.attention=chunked",), {}),
    "nothing computed again": ("gemma-2b-v5e8", "step", ("memory.remat=none",), {}),
    "rounding to nearest": ("gemma-2b-v5e8", "step", ("precision.rounding=nearest",), {}),
    "adamw": ("gemma-2b-v5e8", "step", ("optimizer={name: adamw}",), {}),
    "one chip": ("gemma-2b-v5e8", "step", ("mesh.fsdp=1",), {}),
    "adapters": ("gemma-2b-v5e8", "step", ("method={name: lora}", "precision.rounding=nearest"), {}),
    FULL: (FULL, "step", (), {}),
    f"{FULL} generation": (FULL, "generation", (), {}),
    LORA: (LORA, "step", (), {}),
    f"{LORA} generation": (LORA, "generation", (), {}),
    LARGER: (LARGER, "step", (), {}),
}
"""Name -> recipe, program, overrides, changes of the model's shape."""
NOTHING = """
import time, jax
from jax.experimental import topologies
devices = topologies.get_topology_desc(platform="tpu", topology_name="v5e:2x4").devices
place = jax.sharding.NamedSharding(jax.sharding.Mesh(devices, ("fsdp",)), jax.sharding.PartitionSpec("fsdp"))
x = jax.ShapeDtypeStruct((8, 128), "float32", sharding=place)
start = time.monotonic()
jax.jit(lambda x: x + 1).lower(x).compile()
print(round(time.monotonic() - start, 1), round(time.process_time(), 1))
"""
RESULT = Path(__file__).parent / "results" / "compile_time.json"
TARGET = compile_target(find_target("v5e-8"))


def compiled(name: str) -> dict[str, Any]:
    """Seconds of one case, and the bytes that the compiler plans."""
    recipe, program, words, changes = CASES[name]
    loaded, target = load_recipe(recipe, words), find_target("v5e-8")
    request = engine_request(loaded.recipe, replace(find_shape(loaded), **changes), target)
    # One chip of the eight has one chip's rows.
    fsdp = request.mesh.fsdp if isinstance(request.mesh.fsdp, int) else target.devices
    found = compile_for(request, programs_of(loaded.recipe, fsdp)[program], TARGET, program=program)
    seconds = {"cpu_seconds": found.seconds["compile_cpu"], "seconds": found.seconds["compile"],
               "lower_seconds": found.seconds["lower"]} if "compile_cpu" in found.seconds else {}
    return seconds | {"peak_bytes": found.peak_bytes, "refused": bool(found.refused)}


def nothing() -> dict[str, Any]:
    """Seconds of a program that adds one."""
    done = subprocess.run([sys.executable, "-c", NOTHING], text=True, capture_output=True, check=True,
                          env=dict(environ) | compiler_environment(TARGET) | {"JAX_PLATFORMS": "cpu"})
    seconds, processor = map(float, done.stdout.split()[-2:])
    return {"cpu_seconds": processor, "seconds": seconds}


def main(names: list[str]) -> int:
    """Compile, write after each case."""
    if importlib.util.find_spec("libtpu") is None:
        print("not measured: libtpu is not installed")
        return 3
    before = load_average()
    for name in names or ["nothing", *CASES]:
        start = time.monotonic()
        found = (nothing() if name == "nothing" else compiled(name)) | {"measured": measured()}
        print(f"{name}: {found}, {time.monotonic() - start:.0f} s", flush=True)
        # Read again each time: another call may have written meanwhile.
        values = earlier(RESULT) | {name: found}
        write_result(RESULT, what="Processor seconds of the TPU's compiler for a step and for parts of it.",
                     command="python -m benchmarks.compile_time",
                     values={key: values[key] for key in ("nothing", *CASES) if key in values},
                     packages=("jax", "jaxlib", "libtpu"), load_before=before)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
