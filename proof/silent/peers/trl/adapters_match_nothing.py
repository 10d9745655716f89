"""Names of matrices that the model does not have."""
from _tiny import model, say
from peft import LoraConfig, get_peft_model

try:
    get_peft_model(model(), LoraConfig(target_modules=["Wqkv", "c_attn"]))
    say("wrong", "an adapter without tensors is made")
except ValueError as error:
    say("refused", " ".join(str(error).split())[:150])
