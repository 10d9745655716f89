"""The newest of two checkpoints is cut off in the middle of its weights; the run is resumed from the last one."""
import io
import logging
import tempfile
from pathlib import Path

from _tiny import say, sft

said = io.StringIO()
logging.getLogger("transformers").addHandler(logging.StreamHandler(said))
rows, out = [{"prompt": "ab", "completion": "c" * 9}] * 8, tempfile.mkdtemp()
asked = {"output_dir": out, "save_strategy": "steps", "save_steps": 2, "max_steps": 4}
trainer = sft(rows, **asked)
trainer.train()
weights = Path(out, "checkpoint-4", "model.safetensors")
weights.write_bytes(weights.read_bytes()[:-400])
try:
    again = sft(rows, **asked | {"max_steps": 6})
    again.train(resume_from_checkpoint=True)
    say("wrong", f"resumed from the cut checkpoint, {again.state.global_step} steps")
except Exception as error:  # noqa: BLE001 - of any library that reads the file
    say("refused", f"{type(error).__name__}: {' '.join(str(error).split())[:130]}")
