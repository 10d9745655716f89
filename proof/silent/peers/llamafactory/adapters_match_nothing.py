"""Names of matrices that the model does not have."""
from _tiny import say, trained

try:
    log, _ = trained([{"instruction": "ab", "input": "", "output": "c"}], finetuning_type="lora", lora_target="Wqkv,c_attn")
    say("wrong", f"trained to its end, loss {log[0]['loss']}")
except ValueError as error:
    say("refused", " ".join(str(error).split())[:150])
