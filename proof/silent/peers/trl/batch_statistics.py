"""A hard and an easy prompt in one batch: the advantages of each prompt's group sum to 0."""
from _grpo import changed, grpo
from _tiny import say

trainer = grpo(lambda completions, **more: [0.0, 0.0, 1.0, 0.0, 10.0, 11.0, 10.0, 10.0], per_device_train_batch_size=8)
kept = changed(trainer, lambda output: output)
trainer.train()
first, second = (part.tolist() for part in kept[0]["advantages"].reshape(2, 4))
same = abs(first[2] - second[1]) < 1e-4 and abs(sum(first)) < 1e-4
say("right" if same else "wrong", f"the best of either group has {first[2]:.4f} and {second[1]:.4f}; a group sums to "
    f"{sum(first):.0e}")
