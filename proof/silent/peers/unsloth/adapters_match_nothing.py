"""Names of matrices that the model does not have: none of them, and one of two."""
from _tiny import loaded, say

said = []
for names in (["Wqkv"], ["q_proj", "Wqkv"]):
    try:
        model, _ = loaded(lora={"r": 4, "target_modules": names})
        said.append(f"{names}: {sum('lora_A' in name for name, _ in model.named_parameters())} adapters")
    except ValueError as error:
        said.append(f"{names}: {' '.join(str(error).split())[:60]}")
say("refused" if "not found" in said[0] else "wrong", "; ".join(said))
