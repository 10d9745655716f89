"""TRL's `DPOTrainer` as one contender: ``PYTHON -m benchmarks.peers_rl.trl_dpo FOLDER SETTINGS``, where TRL is.

A reference that is asked before the first update (`precompute_ref_log_probs`) counts as part of every update.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

STARTED = time.time()

# Sets the threads before any framework is imported.
from benchmarks.peers_rl.trl_grpo import Clock  # noqa: E402, I001

import datasets  # noqa: E402
import peft  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
import trl  # noqa: E402

from benchmarks.peers.meter import read_rows  # noqa: E402
from benchmarks.peers_rl.meter import Meter  # noqa: E402


class TimedTrainer(trl.DPOTrainer):
    """Times the reference's log probabilities."""

    reference_seconds = 0.0

    def _precompute_ref_logps(self, *arguments: Any, **named: Any) -> Any:
        started = time.perf_counter()
        found = super()._precompute_ref_logps(*arguments, **named)
        self.reference_seconds += time.perf_counter() - started
        return found


def main(folder: Path, settings: dict[str, Any]) -> None:
    """Train and report."""
    meter = Meter(STARTED, settings["warm"])
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder / "weights")
    model = transformers.AutoModelForCausalLM.from_pretrained(folder / "weights", dtype=torch.float32)
    config = trl.DPOConfig(
        output_dir=str(folder / "trl"), max_steps=settings["warm"] + settings["updates"], seed=settings["seed"],
        use_cpu=True, beta=settings["beta"], max_length=settings["max_length"],
        per_device_train_batch_size=settings["pairs"], learning_rate=settings["learning_rate"],
        lr_scheduler_type="constant", weight_decay=0.0, max_grad_norm=settings["clip_norm"],
        save_strategy="no", logging_strategy="no", report_to=[], disable_tqdm=True, **settings["options"])
    trainer = TimedTrainer(
        model=model, args=config, train_dataset=datasets.Dataset.from_list(read_rows(folder, "written")),
        processing_class=tokenizer, callbacks=[Clock(meter)], peft_config=peft.LoraConfig(
            r=settings["lora_rank"], lora_alpha=2 * settings["lora_rank"], lora_dropout=0.0,
            target_modules="all-linear", task_type="CAUSAL_LM"))
    trainer.train()
    reference = trainer.reference_seconds / len(meter.updates)
    meter.updates = [{"seconds": update["seconds"] + reference} for update in meter.updates]
    meter.report({name: module.__version__ for name, module in
                  (("trl", trl), ("transformers", transformers), ("torch", torch))})


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
