"""TRL's `GRPOTrainer` as one contender: ``PYTHON -m benchmarks.peers_rl.trl_grpo FOLDER SETTINGS``, where TRL is.

The trainer as it comes, its two parts timed from outside: `_generate_single_turn` draws, the reward function rewards.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.peers.meter import THREADS, two_threads

STARTED = time.time()
two_threads()

import datasets  # noqa: E402
import peft  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
import trl  # noqa: E402

from benchmarks.peers_rl.meter import Meter, read_prompts  # noqa: E402
from benchmarks.peers_rl.reward import digits  # noqa: E402

torch.set_num_threads(THREADS)


class Clock(transformers.TrainerCallback):
    """Marks the updates."""

    def __init__(self, meter: Meter) -> None:
        self.meter = meter

    def on_step_end(self, args: object, state: object, control: object, **others: object) -> None:
        """One update is over; on a CPU nothing is in flight."""
        self.meter.end_update()


def main(folder: Path, settings: dict[str, Any]) -> None:
    """Train and report."""
    meter = Meter(STARTED, settings["warm"])
    updates = settings["warm"] + settings["updates"]
    prompts = read_prompts(folder)[:updates * settings["prompts"]]
    rows = datasets.Dataset.from_list([{"prompt": each["text"]} for each in prompts])
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder / "weights")
    assert tokenizer(text=prompts[0]["text"])["input_ids"] == prompts[0]["tokens"]
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder / "weights", dtype=torch.float32)
    rows_an_update = settings["prompts"] * settings["group"]
    accumulation = settings.get("accumulation", 1)
    config = trl.GRPOConfig(
        output_dir=str(folder / "trl"), max_steps=updates, seed=settings["seed"], use_cpu=True,
        # What all are given.
        num_generations=settings["group"], max_completion_length=settings["new_tokens"], temperature=1.0,
        per_device_train_batch_size=rows_an_update // accumulation, gradient_accumulation_steps=accumulation,
        learning_rate=settings["learning_rate"], lr_scheduler_type="constant", weight_decay=0.0,
        max_grad_norm=settings["clip_norm"], beta=0.0, num_iterations=1, loss_type="grpo", shuffle_dataset=False,
        # Nothing but the work.
        save_strategy="no", logging_strategy="no", report_to=[], disable_tqdm=True, **settings["options"])

    def reward(prompts: list[str], completions: list[str], **others: object) -> list[float]:
        started = time.perf_counter()
        found = digits(prompts, completions)
        meter.rewarded(found, time.perf_counter() - started)
        return found

    trainer = trl.GRPOTrainer(model=model, args=config, train_dataset=rows, processing_class=tokenizer,
                              reward_funcs=reward, callbacks=[Clock(meter)], peft_config=peft.LoraConfig(
                                  r=settings["lora_rank"], lora_alpha=2 * settings["lora_rank"], lora_dropout=0.0,
                                  target_modules="all-linear", task_type="CAUSAL_LM"))
    draw = trainer._generate_single_turn

    def timed(*arguments: Any, **named: Any) -> Any:
        started = time.perf_counter()
        completion_ids, others = draw(*arguments, **named)
        meter.drew(time.perf_counter() - started, sum(map(len, completion_ids)))
        return completion_ids, others

    trainer._generate_single_turn = timed
    assert set(trainer.eos_token_ids) == set(json.loads((folder / "facts.json").read_text())["stop_ids"])
    trainer.train()
    meter.report({name: module.__version__ for name, module in
                  (("trl", trl), ("transformers", transformers), ("torch", torch))})


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
