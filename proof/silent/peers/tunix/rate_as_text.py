"""A configuration file with `learning_rate: 2e-5`, which YAML 1.1 reads as a text."""
from _config import config
from _tiny import say

try:
    rate = config("learning_rate: 2e-5").config["optimizer_config"]["learning_rate"]
    say("right" if rate == 2e-5 and isinstance(rate, float) else "wrong", f"the rate is {rate!r}")
except (ValueError, TypeError) as error:
    say("refused", " ".join(str(error).split())[:150])
