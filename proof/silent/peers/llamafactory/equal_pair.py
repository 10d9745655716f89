"""DPO with pairs whose chosen and rejected answer are the same."""
from _tiny import folder, logged, say, trained

columns = {"prompt": "instruction", "chosen": "chosen", "rejected": "rejected"}
try:
    log, _ = trained([{"instruction": "ab", "chosen": "good", "rejected": "good"}] * 2, folder(),
                     {"ranking": True, "columns": columns}, stage="dpo", pref_beta=0.1)
    say("wrong", f"trained to its end, loss {logged(log, 'loss')[0]}, gradient norm {logged(log, 'grad_norm')[0]}")
except ValueError as error:
    say("refused", " ".join(str(error).split())[:150])
