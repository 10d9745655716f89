"""A file with `lr: 2e-5`, which YAML 1.1 reads as a text."""
from _tiny import say
from soup_cli.config.loader import load_config_from_string

try:
    rate = load_config_from_string("base: x\ntask: sft\ndata: {train: x.jsonl}\ntraining:\n  lr: 2e-5\n").training.lr
    say("right" if rate == 2e-5 and isinstance(rate, float) else "wrong", f"the rate is {rate!r}")
except ValueError as error:
    say("refused", " ".join(str(error).split())[:150])
