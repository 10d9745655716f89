"""One update of GRPO with a reward function, and what it is computed from."""
import tempfile

from _tiny import USUAL, model, tokenizer
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer


def grpo(reward, trained=None, rollout=None, peft=None, **settings):
    args = GRPOConfig(tempfile.mkdtemp(), **(USUAL | {"num_generations": 4, "max_completion_length": 8,
                                                      "per_device_train_batch_size": 4} | settings))
    return GRPOTrainer(trained or model(), reward, args=args, train_dataset=Dataset.from_list([{"prompt": "ab"}] * 4),
                       processing_class=tokenizer(), rollout_func=rollout, peft_config=peft)


def spread(completions, **more):
    """Other rewards for each completion."""
    return [float(number) for number in range(len(completions))]


def changed(trainer, change):
    """The trainer, with what it generates and scores changed; what it is computed from."""
    compute, kept = trainer._generate_and_score_completions, []
    trainer._generate_and_score_completions = lambda inputs: kept.append(change(compute(inputs))) or kept[-1]
    return kept
