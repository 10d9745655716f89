"""Each way of learning on the chip, as one short run that is verified: rewards, preference pairs, a teacher.

How much is learned is no question of the chip. Whether every way runs there, and leaves a record that holds, is.
"""

import json
import shutil
from pathlib import Path
from typing import Any

from proof.chip.part import Chip, Part, ask, ask_for_values
from workings.record import jsonl
from workings.record.layout import METRICS

SHORT = ("training.steps=4", "training.warmup_steps=0", "checkpoint.every_steps=4", "mesh.fsdp=1")
UNEVALUATED = "evaluation={traces: addition, every_steps: 1000}"
WAYS = ("rewards", "rewards, lora", "preferences", "teacher", "teacher on traces")


def rows(chip: Chip) -> list[str]:
    """Every way with every engine; in a trial two of them."""
    return [f"{engine}: {way}" for way in WAYS[:2 if chip.tiny else None] for engine in chip.engines]


def run(row: str, chip: Chip, folder: Path) -> dict[str, Any]:
    """One run, and what `workings verify` finds in it."""
    engine, way = row.split(": ")
    place = folder / row.replace(": ", "-").replace(",", "").replace(" ", "-")
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    on_chip = (f"engine={engine}", f"device={chip.platform}", *SHORT)
    out = place / "run"
    ask("train", *words(way, place, on_chip), "--out", str(out))
    checks = ask_for_values("verify", str(out), "--level", "2", codes=(0, 1))
    lines = jsonl.read(out / METRICS)[0]
    return {"holds": checks["failed"] == 0 and len(lines) == 4, "failed_checks": checks["failed"],
            "losses": [line["loss"] for line in lines], "step_seconds": [line["seconds"] for line in lines]}


def words(way: str, place: Path, on_chip: tuple[str, ...]) -> list[str]:
    """The recipe of a way and what is changed in it, with the pairs or the teacher that it needs."""
    if way.startswith("rewards"):
        # The length of a completion tells the members of a group apart where random weights get nothing right.
        adapters = ["method={name: lora, rank: 4, alpha: 8}"] if way.endswith("lora") else []
        return ["quickstart-rewards-cpu", *on_chip, "batch.accumulation=1", "optimizer.name=adamw",
                "algorithm.max_new_tokens=24", "evaluation={traces: none, items: none}", *adapters,
                "rewards=[{scorer: answer}, {scorer: length}]"]
    if way == "preferences":
        pairs = place / "pairs.jsonl"
        pairs.write_text("".join(json.dumps({
            "id": f"pair-{number}", "prompt": f"{number} + 1 = ?", "chosen": f"The sum is {number + 1}.",
            "rejected": f"The sum is {number}."}) + "\n" for number in range(10, 74)), encoding="utf-8")
        return ["smoke-tiny", *on_chip, f"data.traces={pairs}", "algorithm={name: dpo}",
                "batch.micro_batch=8", "evaluation={traces: none, items: none}"]
    teacher = place / "teacher"
    ask("train", "smoke-tiny", *on_chip, UNEVALUATED, "--out", str(teacher))
    name = {"teacher": "{name: distill, teacher: %s, max_new_tokens: 24}",
            "teacher on traces": "{name: distill_traces, teacher: %s, top_k: 8}"}[way] % teacher
    return ["smoke-tiny", *on_chip, f"tokenizer={teacher / 'config' / 'tokenizer'}", f"algorithm={name}",
            "data.max_length=96", UNEVALUATED]


PART = Part(name="ways", shows="A short run of each way of learning on the chip, verified to level 2.", needs=(),
            rows=rows, run=run, told=("failed_checks", "losses"))
