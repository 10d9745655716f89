"""A model whose settings name another stop token than the one that is learned: what is saved."""
import json
from pathlib import Path

from _tiny import SUM, folder, run, say

place = folder()
for name in ("config.json", "generation_config.json"):
    file = Path(place, name)
    file.write_text(json.dumps(json.loads(file.read_text()) | {"eos_token_id": 256}))
out = run(SUM, place).args.output_dir
stops = json.loads(Path(out, "generation_config.json").read_text())["eos_token_id"]
tokens = json.loads(Path(out, "tokenizer.json").read_text())["added_tokens"]
learned = next(token["id"] for token in tokens if token["content"] == "<|im_end|>")
say("right" if learned in (stops if isinstance(stops, list) else [stops]) else "wrong",
    f"generation_config stops at {stops}; learned is {learned}")
