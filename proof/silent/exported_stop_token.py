"""The exported folder names another stop token than the one that was learned: servers do not stop.

Reported: unsloth#5386.
"""

import json

from proof.silent._harness import Found, right_if, short_run, temporary
from workings.publish.export import export_run


def check(engine: str) -> Found:
    """The learned token comes first in `generation_config.json`, and the exported template ends answers with it."""
    with temporary() as folder:
        short_run(engine, folder / "run", {"training.steps": 1})
        export_run(folder / "run", folder / "out")
        ids = json.loads((folder / "out" / "generation_config.json").read_text())["eos_token_id"]
        tokens = json.loads((folder / "out" / "tokenizer.json").read_text())["added_tokens"]
    names = {token["id"]: token["content"] for token in tokens}
    first = (ids if isinstance(ids, list) else [ids])[0]
    return right_if(names[first] == "<end_of_turn>", f"generation_config names {names[first]} first")
