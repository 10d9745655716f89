"""The newest of two checkpoints is cut off in the middle of its weights; `auto_resume_from_checkpoints` continues."""
import tempfile
from pathlib import Path

from _tiny import SUM, folder, run, say

place, out = folder(), tempfile.mkdtemp()
asked = {"save_strategy": "steps", "save_steps": 2, "output_dir": out, "num_epochs": 9}
run(SUM, place, max_steps=4, **asked)
weights = Path(out, "checkpoint-4", "model.safetensors")
weights.write_bytes(weights.read_bytes()[:-400])
try:
    one = run(SUM, place, max_steps=6, auto_resume_from_checkpoints=True, **asked)
    say("wrong", f"resumed from the cut checkpoint, {one.state.global_step} steps")
except Exception as error:  # noqa: BLE001 - of any library that reads the file
    say("refused", f"{type(error).__name__}: {' '.join(str(error).split())[:130]}")
