"""A YAML file with `learning_rate: 2e-5`, which YAML 1.1 reads as a text."""
import tempfile

from _tiny import say
from trl import SFTConfig, TrlParser

with tempfile.NamedTemporaryFile("w", suffix=".yaml", delete=False) as file:
    file.write("learning_rate: 2e-5\noutput_dir: x\nuse_cpu: true\nbf16: false\nreport_to: none\n")
try:
    [config] = TrlParser(SFTConfig).parse_args_and_config(["--config", file.name])
    rate = config.learning_rate
    say("right" if rate == 2e-5 and isinstance(rate, float) else "wrong", f"the rate is {rate!r}")
except (ValueError, TypeError) as error:
    say("refused", " ".join(str(error).split())[:150])
