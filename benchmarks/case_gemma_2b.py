"""Gemma 2B on a TPU v5e-8, once reported as impossible: that program compiled again, its causes one by one, a way out.

    python -m benchmarks.case_gemma_2b [--from LINES [--no-compile]]

The report said "Used 28.59G of 15.75G hbm" at batch 1 and 64 tokens, and blamed the hardware. The program trained
Tunix's Gemma in bfloat16 with optax: everything on one chip of eight, AdamW (its key `optimizer: adafactor` was never
read), nothing donated. Here the same step is compiled for that chip, then with one cause after another taken away, then
this package's plans are next to them. Each case is one command (`python -m benchmarks.case_gemma_2b adamw kept bf16`)
of minutes on a busy machine; ``--from`` takes answers of the same commands that were kept in a file, a JSON object a
line, and with ``--no-compile`` nothing else. Peaks do not depend on this machine. Writes
`benchmarks/results/case_gemma_2b.json`; needs the extras `tunix` and `plan`.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tools.result_file import ROOT, write_result

CASES = {
    "as_it_ran": "adamw kept bf16",
    "donated": "adamw donated bf16",
    "adafactor_donated": "adafactor donated bf16",
    "fp32_donated": "adamw donated fp32",
}
"""Optimizer, what happens to the old state, number format of weights and moments."""
COMPILED = ROOT / "benchmarks" / "results" / "plans.json"
"""This package's plans for the same machine, by `python -m benchmarks.plans v5e8`."""
ROWS, LENGTH = 1, 64
GIB = 2**30


def compile_case(optimizer: str, state: str, dtype: str) -> dict[str, Any]:
    """In a child: the step of that program, on one chip of a v5e-8."""
    os.environ |= {"JAX_PLATFORMS": "cpu", "TPU_SKIP_MDS_QUERY": "1", "TPU_ACCELERATOR_TYPE": "v5litepod-8",
                   "TPU_WORKER_HOSTNAMES": "localhost", "ALLOW_MULTIPLE_LIBTPU_LOAD": "1"}
    import jax
    import jax.numpy as jnp
    import numpy as np
    import optax
    from flax import nnx
    from jax.experimental import topologies
    from jax.sharding import Mesh, NamedSharding, PartitionSpec
    from tunix.models.gemma import model as gemma

    from workings.engines.jax.target import refused_bytes

    chip = topologies.get_topology_desc(platform="tpu", topology_name="v5e:2x4").devices[0]
    here = NamedSharding(Mesh(np.array([chip]), ("one",)), PartitionSpec())
    stored = {"bf16": jnp.bfloat16, "fp32": jnp.float32}[dtype]

    def placed(tree: Any) -> Any:
        return jax.tree.map(lambda x: jax.ShapeDtypeStruct(
            x.shape, stored if jnp.issubdtype(x.dtype, jnp.floating) else x.dtype, sharding=here), tree)

    rule = {"adamw": optax.adamw, "adafactor": optax.adafactor}[optimizer](1e-5)
    model = nnx.eval_shape(lambda: gemma.Gemma(gemma.ModelConfig.gemma_2b(), rngs=nnx.Rngs(0)))
    graph, abstract = nnx.split(model)
    params = placed(abstract)
    moments = placed(jax.eval_shape(rule.init, params))
    tokens = jax.ShapeDtypeStruct((ROWS, LENGTH), jnp.int32, sharding=here)

    def step(params: Any, moments: Any, tokens: jax.Array) -> tuple[Any, Any, jax.Array]:
        def loss(params: Any) -> jax.Array:
            positions = jnp.broadcast_to(jnp.arange(LENGTH)[None], tokens.shape)
            mask = jnp.broadcast_to(jnp.tril(jnp.ones((LENGTH, LENGTH), bool))[None], (ROWS, LENGTH, LENGTH))
            logits = nnx.merge(graph, params)(tokens, positions, None, mask)[0][:, :-1]
            return optax.softmax_cross_entropy_with_integer_labels(logits.astype(jnp.float32), tokens[:, 1:]).mean()

        value, grads = jax.value_and_grad(loss)(params)
        updates, new = rule.update(grads, moments, params)
        new = jax.tree.map(lambda a, b: a.astype(b.dtype), new, moments)
        return optax.apply_updates(params, updates), new, value

    sizes = {name: sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(tree))
             for name, tree in (("parameters_bytes", params), ("moments_bytes", moments))}
    lowered = jax.jit(step, donate_argnums=(0, 1) if state == "donated" else ()).lower(params, moments, tokens)
    try:
        stats = lowered.compile().memory_analysis()
    except jax.errors.JaxRuntimeError as error:
        used, limit = refused_bytes(str(error))
        return sizes | {"peak_bytes": used, "limit_bytes": limit, "fits": False, "said": str(error).splitlines()[0]}
    total = (stats.argument_size_in_bytes + stats.output_size_in_bytes + stats.temp_size_in_bytes
             - stats.alias_size_in_bytes)
    return sizes | {"peak_bytes": int(max(total, stats.peak_memory_in_bytes)), "fits": True}


def answered(words: str, kept: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """One case, from what was kept or from a child process."""
    command = f"python -m benchmarks.case_gemma_2b {words}"
    if command in kept:
        return kept[command]
    done = subprocess.run([sys.executable, "-m", "benchmarks.case_gemma_2b", *words.split()], cwd=ROOT, text=True,
                          capture_output=True, check=True)
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def main(arguments: list[str]) -> int:
    """All cases; 1 where the first is not refused or this package's recipe does not fit."""
    kept: dict[str, dict[str, Any]] = {}
    if arguments[:1] == ["--from"]:
        lines = Path(arguments[1]).read_text(encoding="utf-8").splitlines()
        kept = {each["command"]: each for each in map(json.loads, lines)}
    cases = {}
    for name, words in CASES.items():
        if "--no-compile" in arguments and f"python -m benchmarks.case_gemma_2b {words}" not in kept:
            continue
        cases[name] = answered(words, kept)
        cases[name]["peak_gib"] = round(cases[name]["peak_bytes"] / GIB, 2)
        print(name, cases[name]["peak_gib"], flush=True)
    plans = json.loads(COMPILED.read_text(encoding="utf-8"))["values"]["v5e8"]
    one, recipe = plans["too_large"], plans["gemma-2b-v5e8"]
    first = cases["as_it_ran"]
    causes = {
        "state_held_twice_bytes": first["parameters_bytes"] + first["moments_bytes"],
        "adamw_moments_bytes": first["moments_bytes"],
        "seven_chips_idle_bytes": one["peak_bytes"] - one["nearest"]["peak_bytes"],
    }
    ours = {"adamw_on_one_chip": {"peak_bytes": one["peak_bytes"], "fits": one["fits"], "batch": one["batch"]},
            "adamw_on_all_chips": {"peak_bytes": one["nearest"]["peak_bytes"], "rows": one["nearest"]["rows"]},
            "as_shipped": {"peak_bytes": recipe["peaks"]["step"], "fits": recipe["fits"], "batch": recipe["batch"]}}
    write_result(packages=("jax", "jaxlib", "libtpu", "google-tunix", "flax", "optax"),
                 values={"limit_bytes": cases["as_it_ran"].get("limit_bytes", 0), "reported_gib": 28.59, "cases": cases,
                         "causes": causes, "ours": ours})
    return int(cases["as_it_ran"]["fits"] or not recipe["fits"])


if __name__ == "__main__":
    if len(sys.argv) == 4 and not sys.argv[1].startswith("-"):
        print(json.dumps({"command": " ".join(["python -m benchmarks.case_gemma_2b", *sys.argv[1:]])}
                         | compile_case(*sys.argv[1:])))
    else:
        sys.exit(main(sys.argv[1:]))
