"""The newest of two checkpoints is cut off in the middle of its adapter; the run is resumed from the last one."""
import tempfile
from pathlib import Path

from _tiny import CHATML, model_folder, say, trainer, turns

place, out = model_folder(CHATML), tempfile.mkdtemp()
asked = {"output_dir": out, "save_strategy": "steps", "save_steps": 2}
trainer([turns("ab", "c" * 9)] * 8, place, max_steps=4, **asked).train()
weights = Path(out, "checkpoint-4", "adapter_model.safetensors")
weights.write_bytes(weights.read_bytes()[:-400])
try:
    again = trainer([turns("ab", "c" * 9)] * 8, place, max_steps=6, **asked)
    again.train(resume_from_checkpoint=True)
    say("wrong", f"resumed from the cut checkpoint, {again.state.global_step} steps")
except Exception as error:  # noqa: BLE001 - of any library that reads the file
    say("refused", f"{type(error).__name__}: {' '.join(str(error).split())[:130]}")
