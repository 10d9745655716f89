"""A `module_path` of LoRA that matches no matrix."""
from _tiny import apart, model, rows, say, sft
from tunix.cli.utils.model import apply_lora_to_model
from tunix.sft.utils import is_lora_enabled

try:
    adapted = apply_lora_to_model(model(), None, {"module_path": ".*Wqkv", "rank": 2, "alpha": 4.0})
    tuned = sft([rows(8)], trained=adapted)
    say("right" if is_lora_enabled(adapted) else "wrong",
        f"adapters: {is_lora_enabled(adapted)}; all weights are trained instead, moved by {apart(tuned, model()):.2g}")
except (ValueError, RuntimeError) as error:
    say("refused", " ".join(str(error).split())[:150])
