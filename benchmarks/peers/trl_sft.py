"""TRL's `SFTTrainer` as one contender: ``python trl_sft.py FOLDER SETTINGS`` in an environment that has TRL.

Rows come tokenized, so TRL's own preparation is outside of the measured steps, as it is for the others.
"""

import json
import sys
import time
from pathlib import Path

from meter import THREADS, Meter, prepare, read_rows

STARTED = time.time()
ON_CPU = prepare()

import datasets  # noqa: E402
import peft  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
import trl  # noqa: E402

if ON_CPU:
    torch.set_num_threads(THREADS)


class Clock(transformers.TrainerCallback):
    """Marks the steps."""

    def __init__(self, meter: Meter, warm: int) -> None:
        self.meter, self.warm, self.counts = meter, warm, []

    def on_step_end(self, args: object, state: transformers.TrainerState, control: object, **others: object) -> None:
        """Count this step from what the collator gave."""
        if state.global_step in (1, self.warm):
            wait()
        if state.global_step == 1:
            self.meter.first_step()
        if state.global_step == self.warm:
            self.meter.start()

    def on_log(self, args: object, state: object, control: object, logs: dict[str, float] | None = None,
               **others: object) -> None:
        """Keep the losses."""
        if logs and "loss" in logs:
            self.meter.losses.append(float(logs["loss"]))
        # The trainer logs every tenth step; of fewer it tells the mean alone, at the end.
        elif logs and "train_loss" in logs and not self.meter.losses:
            self.meter.losses.append(float(logs["train_loss"]))

    def on_train_end(self, args: object, state: object, control: object, **others: object) -> None:
        """The last step is over."""
        wait()
        self.meter.stop()


def wait() -> None:
    """Until nothing is in flight: a card works on after the call that asked it."""
    if not ON_CPU:
        torch.cuda.synchronize()


def main(folder: Path, settings: dict[str, object]) -> None:
    """Train and report."""
    meter = Meter(STARTED)
    rows = datasets.Dataset.from_list(read_rows(folder, "warm") + read_rows(folder, settings["order"]))
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder / "weights")
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    warm, steps = settings["warm"], settings["steps"]
    config = trl.SFTConfig(
        output_dir=str(folder / "trl"), per_device_train_batch_size=settings["rows"], max_steps=warm + steps,
        learning_rate=settings["learning_rate"], lr_scheduler_type="constant", weight_decay=0.0, max_grad_norm=1.0,
        save_strategy="no", report_to=[], disable_tqdm=True, use_cpu=ON_CPU, seed=0, completion_only_loss=True,
        max_length=settings["max_length"], **settings["options"])
    model = transformers.AutoModelForCausalLM.from_pretrained(folder / "weights",
                                                              dtype=settings.get("dtype", "float32"))
    clock = Clock(meter, warm)
    rank = settings.get("lora_rank", 0)
    adapters = peft.LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear") if rank else None
    trainer = trl.SFTTrainer(model=model, args=config, train_dataset=rows, processing_class=tokenizer,
                             peft_config=adapters, callbacks=[clock])
    collate = trainer.data_collator

    def counted(examples: list[dict[str, object]]) -> dict[str, torch.Tensor]:
        batch = collate(examples)
        seen = batch.get("attention_mask")
        real = batch["input_ids"].numel() if seen is None else int(seen.sum())
        # A label at the first position of a row is never predicted; prompts are longer than nothing, so none is.
        clock.counts.append((int((batch["labels"] != -100).sum()), real, batch["input_ids"].numel()))
        return batch

    trainer.data_collator = counted
    trainer.train()
    for tokens, real, positions in clock.counts[warm:warm + steps]:
        meter.count(tokens, real, positions)
    if not ON_CPU:
        meter.more["device_peak_bytes"] = torch.cuda.max_memory_reserved()
    meter.report({name: module.__version__ for name, module in
                  (("trl", trl), ("peft", peft), ("transformers", transformers), ("torch", torch))})


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
