"""One update of GRPO with a reward function."""
import tempfile

from _tiny import USUAL, model, tokenizer
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer


def grpo(reward, **settings):
    args = GRPOConfig(tempfile.mkdtemp(), **(USUAL | {"num_generations": 4, "max_completion_length": 8,
                                                      "per_device_train_batch_size": 4} | settings))
    return GRPOTrainer(model(), reward, args=args, train_dataset=Dataset.from_list([{"prompt": "ab"}] * 4),
                       processing_class=tokenizer())
