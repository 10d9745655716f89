"""A misspelt setting of a recipe."""
from _tiny import SUM, config, said, say

try:
    config(SUM)
    made = config(SUM, lerning_rate=1.0)
    warned = "lerning_rate" in said.getvalue()
    say("warned" if warned else "wrong", f"taken; named in a warning: {warned}")
except (ValueError, TypeError) as error:
    say("refused", " ".join(str(error).split())[:150])
