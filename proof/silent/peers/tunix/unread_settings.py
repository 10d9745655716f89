"""A misspelt setting of the optimizer, and a misspelt section on the command line."""
from _config import config
from _tiny import say

found = []
for settings, words in (("learning_rate: 1e-3\n  weight_decya: 0.5", []), ("learning_rate: 1e-3", ["optimiser_config=x"])):
    try:
        config(settings, words).create_optimizer("optimizer_config")
        found.append("taken")
    except (ValueError, TypeError) as error:
        found.append(f"refused: {' '.join(str(error).split())[:60]}")
say("wrong" if "taken" in found else "refused", f"`weight_decya` in a file is {found[0]}; a section is {found[1]}")
