"""The newest of two checkpoints is cut off in the middle of its weights; the run is started again in its folder."""
from pathlib import Path

from _tiny import folder, say, trained

rows, place = [{"instruction": "ab", "input": "", "output": "c" * 9}] * 8, folder()
asked = {"save_strategy": "steps", "save_steps": 2}
_, out = trained(rows, place, max_steps=4, **asked)
weights = Path(out, "checkpoint-4", "model.safetensors")
weights.write_bytes(weights.read_bytes()[:-400])
try:
    log, _ = trained(rows, place, max_steps=6, output_dir=out, **asked)
    say("wrong", f"resumed from the cut checkpoint, {log[-1]['step']} steps")
except Exception as error:  # noqa: BLE001 - of any library that reads the file
    say("refused", f"{type(error).__name__}: {' '.join(str(error).split())[:130]}")
