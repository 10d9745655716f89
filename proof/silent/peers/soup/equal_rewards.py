"""GRPO with a reward that is the same for all completions."""
from _grpo import grpo
from _tiny import logged, say, weights

made = grpo("[0.5] * len(completions)")
made.train()
moved = any(values.any() for name, values in weights(made.trainer.args.output_dir).items() if "lora_B" in name)
share = logged(made, "frac_reward_zero_std")
say("warned" if share == [1.0] else "wrong",
    f"ends without an error, no weight changed: {not moved}; the log has frac_reward_zero_std {share}")
