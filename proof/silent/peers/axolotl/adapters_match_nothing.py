"""Names of matrices that the model does not have."""
from _tiny import SUM, say, trained

try:
    log = trained(SUM, adapter="lora", lora_r=4, lora_alpha=8, lora_target_modules=["Wqkv", "c_attn"],
                  lora_qkv_kernel=False, lora_o_kernel=False, lora_mlp_kernel=False)
    say("wrong", f"trained to its end, loss {log[0]['loss']}")
except ValueError as error:
    say("refused", " ".join(str(error).split())[:150])
