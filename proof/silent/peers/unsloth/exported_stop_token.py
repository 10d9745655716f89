"""A model whose settings name another stop token than the one that is learned: what is saved."""
import json
import tempfile
from pathlib import Path

from _tiny import CHATML, model_folder, say, trainer, turns

made = trainer([turns("ab", "c" * 9)] * 2, model_folder(CHATML, None, {"eos_token_id": 256}))
made.train()
made.model.save_pretrained_merged(out := tempfile.mkdtemp(), made.processing_class)
stops = json.loads(Path(out, "generation_config.json").read_text())["eos_token_id"]
named, learned = json.loads(Path(out, "tokenizer_config.json").read_text())["eos_token"], made.processing_class.eos_token_id
say("right" if learned in (stops if isinstance(stops, list) else [stops]) and named == "<|im_end|>" else "wrong",
    f"generation_config stops at {stops}, the tokenizer at {named}; learned is {learned}")
