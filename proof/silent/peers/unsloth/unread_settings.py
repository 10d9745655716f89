"""A misspelt setting of the loader, of the adapter and of the trainer."""
from _tiny import SFTConfig, loaded, say

found = {}
for name, ask in (("loader", lambda: loaded(load_in_4bti=True)), ("adapter", lambda: loaded(lora={"lora_alfa": 8})),
                  ("trainer", lambda: SFTConfig("x", lerning_rate=1.0))):
    try:
        ask()
        found[name] = "taken"
    except TypeError as error:
        found[name] = " ".join(str(error).split())[-60:]
say("wrong" if "taken" in found.values() else "refused", "; ".join(f"{name}: {text}" for name, text in found.items()))
