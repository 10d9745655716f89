"""DPO: margins of rewards in the first update, and in the last."""
from _tiny import LORA, logged, say, trainer

made = trainer([{"prompt": "ab", "chosen": "good", "rejected": "bad one"}] * 4, None, {"lora": LORA, "lr": 1e-2}, task="dpo")
made.train()
margins = [round(x, 4) for x in logged(made, "rewards/margins")]
say("right" if abs(margins[0]) < 1e-5 < margins[-1] else "wrong", f"margins {margins} in four updates")
