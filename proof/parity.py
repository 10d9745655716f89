"""Both engines compute the same: every family small with all its features, full and LoRA, AdamW and Adafactor.

Comparisons of `workings doctor --engines` over 20 steps, each with clipping, accumulation or packing switched on in
turn: all four pairs of method and optimizer for every Gemma, two for the other families. Run as
``python -m proof.parity``; numbers (from 0) select the comparisons to repeat, and the others are kept from the result
file.
"""

import sys
from collections.abc import Sequence
from itertools import product
from typing import Any

from tools.result_file import earlier, write_result
from workings.runs.parity import TOLERANCES, Parity, parity

GEMMAS = ("gemma", "gemma2", "gemma3", "gemma4")
OTHERS = ("llama", "qwen2", "qwen3", "olmo3", "smollm3")
METHODS = ("full", "lora")
OPTIMIZERS = ("adamw", "adafactor")
FEATURES = (("optimizer.clip_norm=1.0",), ("batch.accumulation=2",), ("data.packing=first_fit",),
            ("memory.loss_chunk=32", "memory.remat=layer"))
CASES = (*product(GEMMAS, METHODS, OPTIMIZERS), *((family, *pair) for family in OTHERS
                                                   for pair in (("full", "adamw"), ("lora", "adafactor"))))
STEPS = 20


def case(number: int, family: str, method: str, optimizer: str) -> Parity:
    """One comparison."""
    words = [f"model.shape.family={family}", f"optimizer.name={optimizer}", *FEATURES[number % len(FEATURES)]]
    if method == "lora":
        words += ["method.name=lora", "method.rank=4", "method.alpha=8"]
    return parity("smoke-tiny", words, steps=STEPS)


def compared(number: int) -> dict[str, Any]:
    """One row of the result."""
    family, method, optimizer = CASES[number]
    found = case(number, family, method, optimizer)
    return {"family": family, "method": method, "optimizer": optimizer,
            "features": list(FEATURES[number % len(FEATURES)])} | found.to_json()


def kept() -> dict[int, dict[str, Any]]:
    """Rows of the result file by number."""
    return {CASES.index((row["family"], row["method"], row["optimizer"])): row for row in earlier().get("rows", [])}


def main(words: Sequence[str]) -> int:
    """Compare, write, and say whether all passed."""
    found = kept() if words else {}
    for number in [int(word) for word in words] or range(len(CASES)):
        found[number] = compared(number)
    rows = [found[number] for number in sorted(found)]
    largest = {name: max(row[f"max_{name}_difference"] for row in rows) for name in TOLERANCES}
    write_result(packages=["jax", "peft", "torch", "transformers"], values={
        "comparisons": len(rows), "passed": sum(row["passed"] for row in rows), "largest": largest,
        "tolerances": TOLERANCES, "steps": STEPS, "rows": rows})
    return 0 if len(rows) == len(CASES) and all(row["passed"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
