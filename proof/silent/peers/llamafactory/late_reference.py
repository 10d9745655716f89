"""DPO without a reference model that is given: margins of rewards in the first update, and in the last."""
from _tiny import folder, logged, say, trained

columns = {"prompt": "instruction", "chosen": "chosen", "rejected": "rejected"}
log, _ = trained([{"instruction": "ab", "chosen": "good", "rejected": "bad one"}] * 4, folder(),
                 {"ranking": True, "columns": columns}, stage="dpo", max_steps=4, learning_rate=1e-2)
margins = [round(x, 4) for x in logged(log, "rewards/margins")]
say("right" if abs(margins[0]) < 1e-5 < margins[-1] else "wrong", f"margins {margins} in four updates")
