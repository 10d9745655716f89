"""A misspelt setting of a recipe."""
from _tiny import arguments, say
from llamafactory.hparams import get_train_args

try:
    get_train_args(arguments([], lerning_rate=1.0))
    say("wrong", "taken without a word")
except (ValueError, TypeError) as error:
    say("refused", " ".join(str(error).split())[:150])
