"""DPO with pairs whose chosen and rejected answer are the same."""
from _tiny import LORA, logged, say, trainer

try:
    made = trainer([{"prompt": "ab", "chosen": "good", "rejected": "good"}] * 2, None, {"lora": LORA}, task="dpo")
    made.train()
    say("wrong", f"trained to its end, loss {logged(made, 'loss')[0]}, gradient norm {logged(made, 'grad_norm')[0]:.1e}")
except ValueError as error:
    say("refused", " ".join(str(error).split())[:150])
