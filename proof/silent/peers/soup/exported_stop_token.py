"""A model whose settings name another stop token than the tokenizer that it is trained with: what is saved."""
import json
from pathlib import Path

from _tiny import folder, say, trainer, turns

made = trainer([turns("ab", "c" * 9)] * 2, folder(shape={"eos_token_id": 256}))
made.train()
out = Path(made.trainer.args.output_dir)
stops = json.loads((out / "generation_config.json").read_text())["eos_token_id"]
named, learned = json.loads((out / "tokenizer_config.json").read_text())["eos_token"], made.tokenizer.eos_token_id
say("right" if learned in (stops if isinstance(stops, list) else [stops]) and named == "<|im_end|>" else "wrong",
    f"generation_config stops at {stops}, the tokenizer at {named}; learned is {learned}")
