"""Runs a small kernel on every device with an engine, in a child process, because a wrong wheel may crash it.

The child is this module, called as ``python -m workings.doctor.kernels ENGINE DEVICE DTYPE…``. It prints a JSON list
with one result per number format.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from time import perf_counter
from typing import Any, Literal, cast

from workings.config.model import ShapeConfig
from workings.config.training import PrecisionConfig
from workings.doctor.finding import Finding
from workings.engines.base import Engine, EngineRequest
from workings.engines.registry import engine_names, find_engine
from workings.errors import DeviceError, RequestError
from workings.hardware.device import without_alias
from workings.models.batch import Batch
from workings.models.shapes import shape_from_config

TIMEOUT_SECONDS = 300
"""The first kernel on an accelerator includes loading its libraries and compiling."""
WHY = "wheels for another card or driver import well and die at the first kernel"
CHILD_MODULE = "workings.doctor.kernels"
ONE_LAYER = ShapeConfig(family="gemma", layers=1, width=640, mlp_width=2048, heads=4, kv_heads=1, head_dim=256)
"""A layer as large as one of Gemma 3 270M, whose forward pass is timed on a CPU."""
TIMED_TOKENS = 64


def check_kernels(engines: list[str], device: str, dtypes: list[str]) -> Iterator[Finding]:
    """A finding for each engine (without any given: each registered one) and number format (``fp32``, ``bf16``)."""
    for name in engines or engine_names():
        results = dict(zip(dtypes, probe(name, device, dtypes), strict=False))
        for dtype, result in results.items():
            yield _finding(name, dtype, result, asked=bool(engines))
        seconds = {dtype: result["seconds"] for dtype, result in results.items() if "seconds" in result}
        if {"fp32", "bf16"} <= {*seconds}:
            yield Finding(id=f"speed.{name}", judgement="fine", why="only some processors multiply bf16 faster; "
                          "precision.compute: auto measures updates of a recipe",
                          what=f"in bf16 a forward pass is {seconds['fp32'] / seconds['bf16']:.2f} times as fast as in "
                               f"fp32 (a layer of Gemma 3 270M's size, {TIMED_TOKENS} tokens, measured now)")


def probe(engine: str, device: str, dtypes: list[str]) -> list[dict[str, Any]]:
    """Results of `run_kernel` from a child process: one for each format, or a single one without any kernel."""
    command = [sys.executable, "-m", CHILD_MODULE, engine, device, *dtypes]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        return [{"failure": f"no answer within {TIMEOUT_SECONDS} s", "kind": "silent"}]
    lines = done.stdout.strip().splitlines()
    # The last line is the result; frameworks may print lines before it.
    if lines and lines[-1].startswith("[{"):
        results: list[dict[str, Any]] = json.loads(lines[-1])
        return results[:1] if all(entry.get("kind") == "not installed" for entry in results) else results
    error_lines = done.stderr.strip().splitlines()
    error_text = error_lines[-1][:300] if error_lines else "nothing"
    return [{"failure": f"the process ended with {done.returncode}: {error_text}", "kind": "crash"}]


def _finding(engine: str, dtype: str, result: dict[str, Any], *, asked: bool) -> Finding:
    name = f"kernel.{engine}"
    if "failure" not in result:
        return Finding(id=name, judgement="fine", why=WHY, what=f"{result['kernel']} is right on "
                       f"{', '.join(result['devices'])} ({result['platform']}: {result['device']}; {result['reason']})")
    # A missing engine is a problem only if it was asked for.
    absent = result["kind"] in ("not installed", "not offered")
    return Finding(id=name, judgement="note" if absent and not asked else "problem",
                   what=f"{dtype}: {result['failure']}", mend=result.get("mend", ""),
                   why="runs that ask for this are refused" if absent else WHY)


def run_kernel(engine: str, device: str, dtype: str) -> dict[str, Any]:
    """The kernel's result with facts about the device; or a ``failure``, its ``kind``, and a command to ``mend`` it."""
    try:
        registered = find_engine(engine)
    except RequestError as error:
        return {"failure": f"engine {engine}: {error.expected}", "mend": error.try_next, "kind": "not installed"}
    try:
        opened = registered.engine.open(EngineRequest(
            shape=shape_from_config(ONE_LAYER, 256), device=without_alias(device),
            precision=PrecisionConfig(compute=cast(Literal["fp32", "bf16"], dtype))))
        checked = opened.check_device()
        facts = opened.describe()
        timed = {"seconds": _forward_seconds(opened)} if facts.platform == "cpu" else {}
    except DeviceError as error:
        return {"failure": error.given, "mend": error.try_next, "kind": "device"}
    except RequestError as error:
        return {"failure": f"engine {engine}: {error.given}; {error.expected} was expected", "mend": error.try_next,
                "kind": "not offered"}
    return {**checked, **timed, "devices": list(checked.get("devices", [facts.kind])), "platform": facts.platform,
            "device": facts.kind, "reason": facts.reason}


def _forward_seconds(engine: Engine) -> float:
    """Seconds of the faster of two forward passes after one that compiles."""
    state, batch, seconds = engine.init(0, trainable=False), Batch.blank((1, 1, TIMED_TOKENS)), []
    for _ in range(3):
        started = perf_counter()
        engine.evaluate(state, batch)
        seconds.append(perf_counter() - started)
    return min(seconds)


if __name__ == "__main__":
    sys.stdout.write(json.dumps([run_kernel(sys.argv[1], sys.argv[2], dtype) for dtype in sys.argv[3:]]) + "\n")
