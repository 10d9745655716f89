"""A misspelt setting, in Python and in a file."""
import tempfile

from _tiny import say
from trl import SFTConfig, TrlParser

found = []
with tempfile.NamedTemporaryFile("w", suffix=".yaml", delete=False) as file:
    file.write("lerning_rate: 1.0\noutput_dir: x\nuse_cpu: true\nbf16: false\n")
for ask in (lambda: SFTConfig("x", lerning_rate=1.0),
            lambda: TrlParser(SFTConfig).parse_args_and_config(["--config", file.name])):
    try:
        ask()
        found.append("taken")
    except (ValueError, TypeError) as error:
        found.append(f"{type(error).__name__}: {' '.join(str(error).split())[:60]}")
say("wrong" if "taken" in found else "refused", f"in Python {found[0]}; in a file {found[1]}")
