"""A file of `unsloth train` with `learning_rate: 2e-5`, which YAML 1.1 reads as a text."""
import tempfile
from pathlib import Path

from _tiny import say
from unsloth_cli.config import load_config

file = Path(tempfile.mkdtemp(), "recipe.yaml")
file.write_text("training:\n  learning_rate: 2e-5\n")
try:
    rate = load_config(file).training.learning_rate
    say("right" if rate == 2e-5 and isinstance(rate, float) else "wrong", f"the rate is {rate!r}")
except Exception as error:  # noqa: BLE001 - its own errors
    say("refused", f"{type(error).__name__}: {' '.join(str(error).split())[:150]}")
