"""A pattern of names that matches no matrix of the model, and training with it."""
from _tiny import logged, model, nnx, rows, say, sft
from tunix.cli.utils.model import apply_lora_to_model

try:
    made = apply_lora_to_model(model(), None, {"module_path": ".*(Wqkv|c_attn)", "rank": 2, "alpha": 4.0})
    count = sum(1 for _, value in nnx.iter_graph(made) if isinstance(value, nnx.LoRAParam))
    tuned = sft([rows(8)], trained=made)
    say("wrong", f"{count} adapters; trained to its end, loss {logged(tuned, 'loss')[0]:.2f}")
except (ValueError, RuntimeError) as error:
    say("refused", " ".join(str(error).split())[:150])
