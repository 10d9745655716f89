"""A misspelt setting in a file."""
from _tiny import recipe, say
from soup_cli.config.loader import load_config_from_string

try:
    load_config_from_string(recipe("x", training={"lerning_rate": 1.0}))
    say("wrong", "taken without a word")
except ValueError as error:
    say("refused", " ".join(str(error).split())[:150])
