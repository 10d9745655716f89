"""Names of matrices that the model does not have."""
from _tiny import SUM, logged, say, trainer

try:
    made = trainer(SUM, training={"lora": {"r": 4, "alpha": 8, "target_modules": ["Wqkv", "c_attn"]}})
    made.trainer.train()
    say("wrong", f"trained to its end, loss {logged(made, 'loss')[0]}")
except ValueError as error:
    say("refused", " ".join(str(error).split())[:150])
