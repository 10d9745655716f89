"""Memory of LoRA and QLoRA steps on TPU v5e chips, by compiling them with the real TPU compiler; no chip is needed.

    python -m benchmarks.v5e_adapters [--from LINES]

Every case is one command of `benchmarks.spikes`. ``--from`` takes answers of the same commands that were kept in a
file, a JSON object a line, instead of compiling again. Peaks do not depend on this machine.
"""

import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.v5e import OWN, compile_case
from tools.result_file import ROOT, load_average, write_result

CASES = {
    "one_chip_gemma_2b_qlora_1x2048": f"{OWN} gemma-2b adamw 1 2048 devices=1 method=qlora",
    "one_chip_gemma_3_4b_qlora_1x2048": f"{OWN} gemma-3-4b adamw 1 2048 devices=1 method=qlora",
    "gemma_2b_lora_8x2048": f"{OWN} gemma-2b adamw 8 2048 method=lora",
}
"""Rank 16 on all seven projections, frozen weights in bf16 or NF4, adapters in fp32, no clipping, no accumulation."""
KEPT = ("command", "failed", "peak_gib", "refused", "breakdown_gib", "mesh", "batch", "tokens_per_device",
        "largest_arrays", "versions")
OUT = ROOT / "benchmarks" / "results" / "v5e_adapters.json"


def main(arguments: list[str]) -> int:
    """All cases; 1 if one of them could not be compiled for another reason than memory."""
    kept: dict[str, dict[str, Any]] = {}
    if arguments[:1] == ["--from"]:
        answers = [json.loads(line) for line in Path(arguments[1]).read_text(encoding="utf-8").splitlines()]
        kept = {answer["command"]: answer for answer in answers}
    before = load_average()
    cases = {}
    for name, command in CASES.items():
        answer = kept.get(f"python -m {command}") or compile_case(command)
        cases[name] = {key: answer[key] for key in KEPT if key in answer} | {
            "fits": "peak_gib" in answer and answer.get("refused", "no") == "no"}
    write_result(OUT, what="Compiler's peak memory per chip of LoRA and QLoRA steps on TPU v5e chips",
                 command="python -m benchmarks.v5e_adapters",
                 values={"limit_gib": 15.75, "cases": cases, "kept_from_an_earlier_compilation": sorted(kept)},
                 packages=("jax", "jaxlib", "libtpu"), load_before=before)
    return int(any("failed" in case for case in cases.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
