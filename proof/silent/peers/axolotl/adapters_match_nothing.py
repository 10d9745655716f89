"""Names of matrices that the model does not have."""
from _tiny import LORA, SUM, say, trained

try:
    log = trained(SUM, **LORA | {"lora_target_modules": ["Wqkv", "c_attn"]})
    say("wrong", f"trained to its end, loss {log[0]['loss']}")
except ValueError as error:
    say("refused", " ".join(str(error).split())[:150])
