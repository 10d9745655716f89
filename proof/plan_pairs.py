"""Verdicts of `workings plan` against an independent compile of the same step, 8 recipe and target pairs, twice.

    python -m proof.plan_pairs [--from LINES]

The independent side uses JAX alone: its own mesh, its own shardings from the tensors' shapes, its own `jax.jit` with
its own donation around the recipe's step. `workings plan` is asked twice with an empty cache each time. ``--from``
takes pairs that an interrupted call printed, a JSON object a line. Writes `proof/plan_pairs.json`; exits with 1 where a
peak differs by more than 1 %, or where the two answers differ at all.
"""

import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from tools.result_file import ROOT, write_result

PAIRS = (
    ("smoke-tiny", "cpu"), ("quickstart", "cpu"), ("smoke-tiny", "v5e-8"), ("quickstart", "v5e-8"),
    ("smoke-tiny", "v6e-8"), ("gemma-2b-rtx5090", "rtx5090"), ("gemma-2b-rtx5090", "h200"), ("gemma-2b-t4", "t4"),
)
TOLERANCE = 0.01


def independent(recipe: str, on: str) -> dict[str, Any]:
    """In a child: peak bytes per device of the recipe's step, by JAX alone."""
    from workings.config.load import load_recipe
    from workings.hardware.catalog import find_target, gpu_config
    from workings.inputs.resolve import find_shape

    loaded, target = load_recipe(recipe), find_target(on)
    os.environ |= {"JAX_PLATFORMS": "cpu", "TPU_SKIP_MDS_QUERY": "1", "TPU_WORKER_HOSTNAMES": "localhost",
                   "TPU_ACCELERATOR_TYPE": target.accelerator_type, "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
                   "JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1", "TF_CPP_MIN_LOG_LEVEL": "1"}
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.experimental import topologies
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    from workings.engines.base import EngineRequest
    from workings.engines.jax.aot_compile import target_config
    from workings.engines.jax.sharding import Layout
    from workings.engines.jax.spec import abstract_state, build_spec
    from workings.engines.jax.step import step

    if target.platform == "tpu":
        options = {key: tuple(value) for key, value in target.topology_options.items() if not isinstance(value, str)}
        devices = topologies.get_topology_desc(platform="tpu", topology_name=target.topology, **options).devices
    elif target.platform == "cpu":
        devices = jax.devices("cpu")[:1]
    else:
        devices = topologies.get_topology_desc(
            platform="cuda", topology_name=on, topology=f"1x1x{target.devices}",
            target_config=target_config(gpu_config(target.gpu_config))).devices
    mesh = Mesh(np.array(devices).reshape(-1, 1), ("fsdp", "tp"))
    asked = loaded.recipe
    request = EngineRequest(
        shape=find_shape(loaded), device=target.platform, optimizer=asked.optimizer, precision=asked.precision,
        memory=asked.memory, mesh=asked.mesh, seed=asked.seed, method=asked.method)
    spec = build_spec(request, Layout(mesh), target.platform)
    state = abstract_state(spec)
    count = len(devices)

    def split(path: Any, x: Any) -> NamedSharding:
        """Matrices over all devices: the vocabulary by rows, o and down by rows, all others by columns."""
        name = "/".join(str(getattr(key, "key", key)) for key in path)
        axes: list[str | None] = [None] * len(x.shape)
        if name.startswith("params") and len(x.shape) - ("layers" in name) == 2:
            by_row = any(word in name for word in ("embed", "lm_head", "o_proj", "down_proj"))
            axis = len(x.shape) - (2 if by_row else 1)
            axes[axis] = "fsdp" if x.shape[axis] % count == 0 else None
        return NamedSharding(mesh, PartitionSpec(*axes))

    places = jax.tree_util.tree_map_with_path(split, state)
    # A moment is where its parameter is; a row or a column of one keeps what is left of its axes.
    whole = dict(_flat(places["params"]))
    places["moments"] = {slot: {name: _moment(slot, whole[name], PartitionSpec, mesh, NamedSharding)
                                for name in tree} for slot, tree in state["moments"].items()}
    rows = (asked.batch.accumulation, asked.batch.micro_batch * count, asked.data.max_length)
    batch = {name: jax.ShapeDtypeStruct(rows, np.int32) for name in ("tokens", "targets", "positions", "segment_ids")}
    batch["weights"] = jax.ShapeDtypeStruct(rows, np.float32)
    by_row, everywhere = NamedSharding(mesh, PartitionSpec(None, "fsdp")), NamedSharding(mesh, PartitionSpec())
    compiled = jax.jit(
        partial(step, spec), donate_argnums=(0,), in_shardings=(places, dict.fromkeys(batch, by_row), everywhere),
        out_shardings=(places, everywhere)).lower(state, batch, jax.ShapeDtypeStruct((), jnp.float32)).compile()
    stats = compiled.memory_analysis()
    total = (stats.argument_size_in_bytes + stats.output_size_in_bytes + stats.temp_size_in_bytes
             - stats.alias_size_in_bytes)
    return {"peak_bytes": int(max(total, stats.peak_memory_in_bytes))}


def _flat(tree: Any, prefix: str = "") -> Any:
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _moment(slot: str, place: Any, spec: Any, mesh: Any, sharding: Any) -> Any:
    axes = tuple(place.spec)
    kept = {"exp_avg_sq_row": axes[:-1], "exp_avg_sq_col": (*axes[:-2], *axes[-1:])}.get(slot, axes)
    return sharding(mesh, spec(*kept))


def planned(recipe: str, on: str) -> dict[str, Any]:
    """What `workings plan` says about the step, with nothing remembered."""
    with tempfile.TemporaryDirectory() as cache:
        environment = dict(os.environ) | {"WORKINGS_CACHE": cache, "XLA_PYTHON_CLIENT_MEM_FRACTION": "0.95"}
        done = subprocess.run([sys.executable, "-m", "workings", "plan", recipe, "--on", on, "--no-nearest", "--json",
                               "evaluation={}"], cwd=ROOT, text=True, capture_output=True, check=False,
                              env=environment)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def alone(recipe: str, on: str) -> int:
    """`independent` in a child process: JAX reads its environment once."""
    done = subprocess.run([sys.executable, "-m", "proof.plan_pairs", recipe, on], cwd=ROOT, text=True,
                          capture_output=True, check=True)
    peak: int = json.loads(done.stdout.splitlines()[-1])["peak_bytes"]
    return peak


def main(arguments: list[str]) -> int:
    """All pairs."""
    kept: dict[str, Any] = {}
    if arguments[:1] == ["--from"]:
        for line in Path(arguments[1]).read_text(encoding="utf-8").splitlines():
            kept |= json.loads(line)
    values: dict[str, Any] = {}
    for recipe, on in PAIRS:
        if f"{recipe} on {on}" in kept:
            values[f"{recipe} on {on}"] = kept[f"{recipe} on {on}"]
            continue
        with ThreadPoolExecutor(3) as pool:
            once, twice = pool.submit(planned, recipe, on), pool.submit(planned, recipe, on)
            peak = pool.submit(alone, recipe, on).result()
            first, second = once.result(), twice.result()
        values[f"{recipe} on {on}"] = {
            "planned_bytes": first["peak_bytes"], "again_bytes": second["peak_bytes"], "independent_bytes": peak,
            "difference": round(abs(first["peak_bytes"] - peak) / peak, 6), "source": first["source"],
            "fits": first["fits"], "fits_again": second["fits"], "limit_bytes": first["limit_bytes"]}
        print(json.dumps({f"{recipe} on {on}": values[f"{recipe} on {on}"]}), flush=True)
    worst = max(pair["difference"] for pair in values.values())
    same = all(pair["planned_bytes"] == pair["again_bytes"] for pair in values.values())
    write_result(packages=("jax", "jaxlib", "libtpu", "jax-cuda12-plugin"),
                 values={"pairs": values, "count": len(values), "largest_difference": worst, "repeats_exactly": same})
    return int(worst > TOLERANCE or not same)


if __name__ == "__main__":
    if len(sys.argv) == 3 and not sys.argv[1].startswith("-"):
        print(json.dumps(independent(*sys.argv[1:])))
    else:
        sys.exit(main(sys.argv[1:]))
