"""GRPO whose completions are all cut off: whether they are learned, and what the log says."""
from _grpo import grpo
from _tiny import logged, say, weights

made = grpo()
made.train()
moved = any(values.any() for name, values in weights(made.trainer.args.output_dir).items() if "lora_B" in name)
share = logged(made, "completions/clipped_ratio")
say("right" if moved else "warned" if share == [1.0] else "wrong",
    f"they are learned: {moved}; the log has completions/clipped_ratio {share}")
