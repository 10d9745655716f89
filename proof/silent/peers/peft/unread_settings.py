"""Misspelt settings of the adapter and of the trainer."""
from _tiny import say
from peft import LoraConfig
from transformers import TrainingArguments

found = []
for ask in (lambda: LoraConfig(lora_alfa=8), lambda: TrainingArguments("x", lerning_rate=1.0)):
    try:
        ask()
        found.append("taken")
    except TypeError as error:
        found.append(" ".join(str(error).split())[:70])
say("wrong" if "taken" in found else "refused", f"adapter: {found[0]}; trainer: {found[1]}")
