"""A recipe with `learning_rate: 2e-5`, which YAML 1.1 reads as a text."""
from pathlib import Path

from _tiny import SUM, config, load_cfg, say

made = config(SUM)
file = Path(made.axolotl_config_path)
file.write_text(file.read_text().replace('"learning_rate": 0.001', '"learning_rate": 2e-5'))
try:
    rate = load_cfg(str(file)).learning_rate
    say("right" if rate == 2e-5 and isinstance(rate, float) else "wrong", f"the rate is {rate!r}")
except (ValueError, TypeError) as error:
    say("refused", " ".join(str(error).split())[:150])
