"""The newest of two checkpoints is cut off in the middle of its weights; `--resume auto` takes up the run."""
import tempfile
from pathlib import Path

from _tiny import folder, say, trainer, turns
from soup_cli.commands.train import _resolve_checkpoint

rows, place, out = [turns("ab", "c" * 9)] * 4, folder(), tempfile.mkdtemp()
trainer(rows, place, {"save_steps": 2}, output=out).train()
weights = Path(out, "checkpoint-4", "model.safetensors")
weights.write_bytes(weights.read_bytes()[:-400])
try:
    made, found = trainer(rows, place, {"save_steps": 2, "epochs": 2}, output=out), _resolve_checkpoint("auto", out)
    made.train(resume_from_checkpoint=found)
    say("wrong" if found.endswith("4") else "right", f"resumed from {Path(found).name}, {made.trainer.state.global_step} steps")
except Exception as error:  # noqa: BLE001 - of any library that reads the file
    say("refused", f"{type(error).__name__}: {' '.join(str(error).split())[:130]}")
