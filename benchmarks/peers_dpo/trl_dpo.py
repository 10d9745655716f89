"""TRL's `DPOTrainer` as one contender: ``python trl_dpo.py FOLDER SETTINGS`` in an environment that has TRL.

Pairs come tokenized, so TRL's own preparation is outside of the measured steps, as it is for the others.
"""

import json
import sys
import time
from pathlib import Path
from statistics import fmean
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "peers"))

from meter import THREADS, Meter, read_rows, two_threads

STARTED = time.time()
two_threads()

import datasets  # noqa: E402
import tokenizers  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
import trl  # noqa: E402

torch.set_num_threads(THREADS)


class Clock(transformers.TrainerCallback):
    """Marks the steps."""

    def __init__(self, meter: Meter, warm: int) -> None:
        self.meter, self.warm = meter, warm

    def on_step_end(self, args: object, state: transformers.TrainerState, control: object, **others: object) -> None:
        """The first step, and the end of the warm-up."""
        if state.global_step == 1:
            self.meter.first_step()
        if state.global_step == self.warm:
            self.meter.start()

    def on_log(self, args: object, state: object, control: object, logs: dict[str, float] | None = None,
               **others: object) -> None:
        """Keep the losses."""
        if logs and "loss" in logs:
            self.meter.losses.append(float(logs["loss"]))

    def on_train_end(self, args: object, state: object, control: object, **others: object) -> None:
        """The last step is over."""
        self.meter.stop()


class Prepared(trl.DPOTrainer):
    """TRL's trainer on pairs that are tokenized already, its pass of the reference timed."""

    meter: Meter

    def _prepare_dataset(self, dataset: Any, *others: Any) -> Any:
        return dataset

    def _precompute_ref_logps(self, *arguments: Any, **named: Any) -> Any:
        started = time.perf_counter()
        found = super()._precompute_ref_logps(*arguments, **named)
        Prepared.meter.more["reference_seconds"] = time.perf_counter() - started
        return found


def main(folder: Path, settings: dict[str, Any]) -> None:
    """Train and report."""
    meter = Prepared.meter = Meter(STARTED)
    measured = read_rows(folder, settings["order"])
    rows = datasets.Dataset.from_list(read_rows(folder, "warm") + measured)
    backend = tokenizers.Tokenizer.from_file(str(folder / "weights" / "tokenizer.json"))
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend, **{f"{name}_token": f"<{name}>" for name in ("pad", "eos", "bos")})
    warm, steps = settings["warm"], settings["steps"]
    config = trl.DPOConfig(
        output_dir=str(folder / "trl"), per_device_train_batch_size=settings["pairs"], max_steps=warm + steps,
        per_device_eval_batch_size=settings["pairs"], beta=settings["beta"], learning_rate=settings["learning_rate"],
        lr_scheduler_type="constant", weight_decay=0.0, max_grad_norm=1.0, save_strategy="no", report_to=[],
        disable_tqdm=True, use_cpu=True, seed=0, max_length=settings["max_length"], logging_steps=1,
        train_sampling_strategy="sequential", **settings["options"])
    model = transformers.AutoModelForCausalLM.from_pretrained(folder / "weights", dtype=torch.float32)
    trainer = Prepared(model=model, args=config, train_dataset=rows, processing_class=tokenizer,
                       callbacks=[Clock(meter, warm)])
    collate, counts = trainer.data_collator, []

    def counted(examples: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        batch = collate(examples)
        counts.append((int(batch["completion_mask"].sum()), int(batch["attention_mask"].sum()),
                       batch["input_ids"].numel()))
        return batch

    trainer.data_collator = counted
    trainer.train()
    for tokens, real, positions in counts[warm:warm + steps]:
        meter.count(tokens, real, positions)
    if "reference_seconds" in meter.more:  # its pass has the pairs of the warm-up as well
        meter.more["reference_seconds"] *= steps / (warm + steps)
    meter.losses = meter.losses[warm:]
    # Pairs come in another order than ours, so single steps are not comparable.
    meter.more["mean_loss"] = fmean(meter.losses)
    meter.report({name: module.__version__ for name, module in
                  (("trl", trl), ("transformers", transformers), ("torch", torch))})


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
