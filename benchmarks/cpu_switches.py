"""What each optimization for CPUs is worth: seconds of a step with one of them turned off, to those with all turned on.

    python -m benchmarks.cpu_switches [--only CASE…] [--engine jax torch] [--gsm8k FILE] [--steps N] [--rounds N]
        [--allow-load]

Two models on the batches that the training loop would give them: the quickstart's, and the one of 50 million parameters
on GSM8K that `benchmarks.peers` has (``base-gsm8k``); ``quickstart-packed`` and ``base-gsm8k-packed`` pack their rows,
for what packed rows alone make use of. Every contender (everything on, one switch off, everything off) runs in a fresh
process, and they take turns; every shape is stepped through twice before. Programs that JAX compiled are kept from turn
to turn.

``least_seconds`` of a step: the least of every batch over all turns, averaged over the batches, which differ in length;
``ratio``: those of a contender to those of everything on. What brings less than a tenth is below 1.1 in every case.
Exits with 3 where others use more than half a core before a turn, unless ``--allow-load``, which marks the result as
not to be quoted, and where GSM8K is not there.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks.peers.meter import two_threads

two_threads()

import numpy as np  # noqa: E402

from benchmarks.peers.case import DATA, _write, batches_of, make_case, read_shape, request_for  # noqa: E402
from tools.other_load import Load  # noqa: E402
from tools.result_file import ROOT, load_average, measured, write_result  # noqa: E402
from workings.config.load import load_recipe  # noqa: E402
from workings.data.rows import build_rows  # noqa: E402
from workings.engines.registry import find_engine  # noqa: E402
from workings.hardware.huge_pages import VARIABLE, with_huge_pages  # noqa: E402
from workings.inputs.resolve import resolve  # noqa: E402

RESULT = ROOT / "benchmarks" / "results" / "cpu_switches.json"
STEPS = {"quickstart": 160, "base-gsm8k": 6, "quickstart-packed": 160, "base-gsm8k-packed": 6}
"""Measured updates of a turn."""
Settings = dict[str, Any]
"""Of batches, as `benchmarks.peers.case` takes them."""
PACKED: Settings = {"rows": 11, "max_length": 144, "packing": "best_fit"}
"""Batches of the packed case: a sequence holds three rows with their steps, an update about as many as without."""
RATE = 1e-4
EVERYTHING, NOTHING, PAGES = "everything", "nothing", "huge_pages"
SWITCHES = {
    "jax": ("loss_positions", PAGES, "attention_derivative"),
    "torch": ("segments", "small_tensors_together", "fused_update", PAGES)}
"""``loss_positions``: the loss at positions picked; ``fused_update``: PyTorch's kernel for AdamW, which also
updates tensors together."""
UNUSED = {
    ("quickstart", "torch"): {"segments": "no row is packed"},
    ("base-gsm8k", "torch"): {"segments": "no row is packed"},
    **{(case, "torch"): dict.fromkeys(SWITCHES["torch"][1:], "measured on rows that are not packed")
       for case in ("quickstart-packed", "base-gsm8k-packed")}}
"""Switches that change nothing there, or are measured elsewhere."""


def make(case: str, folder: Path, gsm8k: Path) -> None:
    """Write rows, the model's shape and the settings of batches into a folder."""
    if case.startswith("base-gsm8k"):
        kind = DATA["gsm8k"]
        facts = make_case(folder, "base", "gsm8k", gsm8k, 0, STEPS[case])
        # Two batches a length: every length costs a program and two steps before the measured ones.
        settings: Settings = {"rows": kind.rows, "max_length": kind.max_length, "buckets": sorted(facts["fine"][::-2])}
        if case.endswith("packed"):
            settings = {"rows": kind.rows // 4, "max_length": 4 * kind.max_length, "packing": "best_fit"}
    else:
        loaded = load_recipe("quickstart")
        data, resolved = loaded.recipe.data, resolve(loaded, tensors=False)
        rows = build_rows(resolved.data.traces, resolved.tokenizer, resolved.template, data)
        _write(folder / "rows.jsonl", rows.rows)
        (folder / "shape.json").write_text(json.dumps(asdict(resolved.shape)))
        settings = PACKED if case == "quickstart-packed" else {
            "rows": loaded.recipe.batch.micro_batch, "max_length": data.max_length, "buckets": list(data.buckets)}
    (folder / "settings.json").write_text(json.dumps(settings | {"compute": "fp32"}))


def turn_off(engine_name: str, off: set[str]) -> None:
    """Replace what can be replaced before the engine is opened. A name that is no longer there is an error."""
    if engine_name == "jax":
        from workings.engines.jax import attention as plain

        def by_automatic_derivative(q: Any, k: Any, v: Any, allowed: Any, scale: float, softcap: float) -> Any:
            return plain.masked_attention(q, k, v, allowed, scale=scale, softcap=softcap)

        places: list[tuple[str, Any, str, Any]] = [
            ("attention_derivative", plain, "trained_attention", by_automatic_derivative)]
    else:
        from workings.engines.torch import spec, step
        from workings.engines.torch.attention import no_attention_layout
        from workings.engines.torch.optimizers import apply

        places = [
            ("segments", spec, "find_segments", no_attention_layout),
            ("small_tensors_together", step, "in_groups",
             lambda optimizer, tensors, context: ([each] for each in tensors)),
            ("fused_update", apply, "_fusable", lambda optimizer, each, context: False)]
    for switch, module, name, value in places:
        if switch in off:
            mock.patch.object(module, name, value).start()


def child(contender: str, engine_name: str, folder: Path, steps: int) -> dict[str, Any]:
    """One contender in this process: seconds of each batch in each pass over them, and what the batches are."""
    off = {EVERYTHING: set[str](), NOTHING: set(SWITCHES[engine_name])}.get(contender, {contender})
    settings = json.loads((folder / "settings.json").read_text())
    turn_off(engine_name, off)
    engine: Any = find_engine(engine_name).engine.open(request_for(read_shape(folder), settings))
    state, losses = engine.init(0), []
    less: dict[str, Any] = {"loss_positions": None} if "loss_positions" in off else {}
    batches = [replace(batch, **less) for batch in batches_of(folder, settings)][:steps]
    for batch in {batch.tokens.shape: batch for batch in batches}.values():
        for _ in range(2):
            state, result = engine.step(state, batch, RATE)
            losses.append(result.loss)
    seconds: list[list[float]] = []
    for _ in range(max(1, steps // len(batches))):
        seconds.append([])
        for batch in batches:
            started = time.perf_counter()
            state, _ = engine.step(state, batch, RATE)
            seconds[-1].append(time.perf_counter() - started)
    return {"seconds": seconds, "supervised_tokens": [batch.supervised_tokens for batch in batches],
            "peak_bytes": engine.memory().peak_bytes,
            "lengths": sorted({batch.tokens.shape[2] for batch in batches}), "first_loss": losses[0]}


def turn(contender: str, case: str, engine: str, folder: Path, steps: int) -> dict[str, Any]:
    """One contender in a fresh process, with huge pages as the doctor advises unless it is measured without them."""
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    pages = {} if contender in (PAGES, NOTHING) else with_huge_pages(environment)
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.cpu_switches", "--child", contender, case, engine, str(folder), str(steps)],
        capture_output=True, text=True, check=False, cwd=ROOT,
        env=environment | pages | {"WORKINGS_CACHE": str(folder / "cache")})
    if done.returncode:
        raise SystemExit(f"{case} {engine} {contender}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def summary(turns: list[dict[str, Any]]) -> dict[str, Any]:
    """Seconds per step of one contender: of every batch the least and the median, averaged over the batches."""
    seconds = np.concatenate([found["seconds"] for found in turns])
    least, tokens = float(seconds.min(0).mean()), float(np.mean(turns[0]["supervised_tokens"]))
    return {"least_seconds": round(least, 5), "median_seconds": round(float(np.median(seconds, 0).mean()), 5),
            "tokens_per_second": round(tokens / least, 1),
            "turns": [round(float(np.min(found["seconds"], 0).mean()), 5) for found in turns],
            "first_loss": round(turns[0]["first_loss"], 4), "peak_bytes": max(found["peak_bytes"] for found in turns)}


def run_engine(case: str, engine: str, folder: Path, steps: int, rounds: int, load: Load) -> dict[str, Any]:
    """All contenders of one engine on one case."""
    unused = UNUSED.get((case, engine), {}) | ({} if with_huge_pages({}) else {PAGES: "none on request here"})
    used = [name for name in SWITCHES[engine] if name not in unused]
    contenders = (EVERYTHING, *used, *([NOTHING] if len(used) > 1 else []))
    turns: dict[str, list[dict[str, Any]]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for contender, found in turns.items():
            load.check()
            found.append(turn(contender, case, engine, folder, steps))
            seconds = summary(found[-1:])["least_seconds"]
            print(f"{case:17} {engine:5} {contender:22} {seconds:8.4f} s a step", flush=True)
    rows = {name: summary(found) for name, found in turns.items()}
    whole, first = rows.pop(EVERYTHING), turns[EVERYTHING][0]
    for row in rows.values():
        row["ratio"] = round(row["least_seconds"] / whole["least_seconds"], 3)
    nothing = {NOTHING: rows.pop(NOTHING)} if NOTHING in rows else {}
    return {"steps": int(np.size(first["seconds"])), "rounds": rounds, "lengths": first["lengths"],
            EVERYTHING: whole, **nothing,
            "without": {name: rows.get(name) or {"absent": unused[name]} for name in SWITCHES[engine]}}


def main(arguments: list[str]) -> int:
    """Run the cases, write the result file after each engine, print the ratios."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="*", default=list(STEPS), choices=list(STEPS))
    parser.add_argument("--engine", nargs="*", default=list(SWITCHES), choices=list(SWITCHES))
    parser.add_argument("--gsm8k", type=Path, default=Path(os.environ.get("GSM8K_TRAIN", "gsm8k/train.jsonl")))
    parser.add_argument("--steps", type=int)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--allow-load", action="store_true")
    parser.add_argument("--child", nargs=5, help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    if asked.child:
        contender, _, engine, folder, steps = asked.child
        print(json.dumps(child(contender, engine, Path(folder), int(steps))))
        return 0
    load, first, left_out = Load(allow=asked.allow_load), load_average(), False
    values = json.loads(RESULT.read_text())["values"] if RESULT.is_file() else {"cases": {}}
    for case in asked.only:
        if case.startswith("base-gsm8k") and not asked.gsm8k.is_file():
            print(f"{case}: not measured, {asked.gsm8k} is not there (--gsm8k FILE: GSM8K's train.jsonl)")
            left_out = True
            continue
        with tempfile.TemporaryDirectory() as name:
            make(case, Path(name), asked.gsm8k)
            for engine in asked.engine:
                if case.endswith("packed") and engine == "jax":  # which has nothing for packed rows alone
                    continue
                found = run_engine(case, engine, Path(name), asked.steps or STEPS[case], asked.rounds, load)
                values["cases"].setdefault(case, {})[engine] = found | {
                    "quotable": not load.passed_over, "measured": measured()}
                off = found["without"] | ({"all of them": found[NOTHING]} if NOTHING in found else {})
                for row, each in off.items():
                    print(f"{case:17} {engine:5} without {row:22} {each.get('ratio') or each['absent']}")
                write_result(RESULT, what="What each optimization for CPUs is worth, turned off alone.", values=values,
                             command="python -m benchmarks.cpu_switches", load_before=first,
                             packages=["jax", "jaxlib", "torch", "transformers"])
                print(f"wrote {RESULT.relative_to(ROOT)}", flush=True)
    return 3 if left_out else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
