"""A recipe with `learning_rate: 2e-5`, which YAML 1.1 reads as a text."""
import json
import sys
import tempfile

from _tiny import arguments, say
from llamafactory.hparams import get_train_args, read_args

asked = {name: value for name, value in arguments([]).items() if name != "learning_rate"}
with tempfile.NamedTemporaryFile("w", suffix=".yaml", delete=False) as file:
    file.write("".join(f"{name}: {json.dumps(value)}\n" for name, value in asked.items()) + "learning_rate: 2e-5\n")
try:
    sys.argv, kept = ["llamafactory-cli", file.name], sys.argv
    rate = get_train_args(read_args())[2].learning_rate
    say("right" if rate == 2e-5 and isinstance(rate, float) else "wrong", f"the rate is {rate!r}")
except (ValueError, TypeError) as error:
    say("refused", " ".join(str(error).split())[:150])
finally:
    sys.argv = kept
