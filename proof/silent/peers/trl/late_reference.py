"""DPO without a reference model that is given: margins at the beginning, and when evaluated after training."""
import tempfile

from _tiny import USUAL, logged, model, say, tokenizer
from datasets import Dataset
from trl import DPOConfig, DPOTrainer

pairs = Dataset.from_list([{"prompt": "ab", "chosen": "good", "rejected": "bad one"}] * 4)
model().save_pretrained(folder := tempfile.mkdtemp())
trainer = DPOTrainer(folder, args=DPOConfig(tempfile.mkdtemp(), **(USUAL | {"max_steps": 4, "learning_rate": 1e-2})),
                     train_dataset=pairs, eval_dataset=pairs, processing_class=tokenizer())
trainer.train()
first, after = logged(trainer, "rewards/margins")[0], trainer.evaluate()["eval_rewards/margins"]
say("right" if abs(first) < 1e-5 < after else "wrong", f"margin {first:.4f} at first, {after:.4f} after training")
