"""A model whose settings name another stop token than the tokenizer that it was trained with: what is saved."""
import json
import tempfile
from pathlib import Path

from _tiny import model, say, sft

trainer = sft([{"prompt": "ab", "completion": "c" * 9}], model(eos_token_id=256))
trainer.train()
trainer.save_model(folder := tempfile.mkdtemp())
stops = json.loads(Path(folder, "generation_config.json").read_text())["eos_token_id"]
named = json.loads(Path(folder, "tokenizer_config.json").read_text())["eos_token"]
listed = stops if isinstance(stops, list) else [stops]
say("right" if 257 in listed and named == "<|im_end|>" else "wrong",
    f"generation_config stops at {stops}, the tokenizer at {named}; learned is 257")
