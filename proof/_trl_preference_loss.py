"""TRL's own preference loss: ``python _trl_preference_loss.py < GIVEN > FOUND`` in an environment that has TRL.

GIVEN is a JSON list of objects: ``options`` of `trl.DPOConfig`; ``now`` and ``mask``, ``[B, S]`` each, chosen rows
first; ``reference``, ``[B]``, of whole rows. FOUND has ``versions`` and, for each of them in order, ``loss``, its
``gradient`` in ``now``, and TRL's own ``metrics``. All of TRL's `_compute_loss` runs, in float32; only the model is not
there. Without this project, which need not be installed next to TRL.
"""

import json
import os
import sys
import tempfile
from collections import defaultdict
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

# Whatever is printed by an import must not be in the answer.
ANSWER, sys.stdout = sys.stdout, sys.stderr
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import torch  # noqa: E402
import trl  # noqa: E402
from accelerate import Accelerator  # noqa: E402

METRICS = {"margin": "rewards/margins", "accuracy": "rewards/accuracies", "chosen_reward": "rewards/chosen",
           "rejected_reward": "rewards/rejected", "chosen_log_prob": "logps/chosen",
           "rejected_log_prob": "logps/rejected"}


class Told(trl.DPOTrainer):
    """A trainer that is told log probabilities instead of asking a model."""

    def __init__(self, given: dict[str, Any], folder: str) -> None:
        # Not the trainer's own, which wants a model and pairs; what it takes from its settings is set here.
        args = trl.DPOConfig(output_dir=folder, use_cpu=True, bf16=False, report_to=[], **given["options"])
        self.__dict__.update(
            args=args, loss_types=args.loss_type, loss_weights=[1.0], beta=args.beta, ld_alpha=args.ld_alpha,
            label_smoothing=args.label_smoothing, f_divergence_type=args.f_divergence_type, use_weighting=False,
            aux_loss_enabled=False, precompute_ref_logps=True, _tp_size=1, _total_train_tokens=0,
            model=SimpleNamespace(training=True), accelerator=Accelerator(cpu=True),
            _metrics={"train": defaultdict(list)})

    def found(self, given: dict[str, Any]) -> dict[str, Any]:
        """Loss, gradient and metrics."""
        now, mask = torch.tensor(given["now"], requires_grad=True), torch.tensor(given["mask"])
        # The mask is that of tokens, and the first one of a row is predicted by none.
        tokens = torch.cat([torch.zeros(len(mask), 1), mask], 1)
        chosen, rejected = torch.tensor(given["reference"]).chunk(2)
        unused = torch.zeros_like(now.detach())

        def model(**_: Any) -> Any:
            return SimpleNamespace(log_probs=now * mask, entropy=unused, mean_logits=unused, is_top1=unused.bool())

        loss = self._compute_loss(model, {
            "input_ids": torch.zeros_like(tokens).long(), "attention_mask": torch.ones_like(tokens),
            "completion_mask": tokens.long(), "ref_chosen_logps": chosen, "ref_rejected_logps": rejected}, False)
        [gradient] = torch.autograd.grad(loss, now)
        metrics = {ours: self._metrics["train"][theirs][-1] for ours, theirs in METRICS.items()}
        return {"loss": loss.item(), "gradient": gradient.tolist(), "metrics": metrics}


def main() -> None:
    """Answer on standard output."""
    with tempfile.TemporaryDirectory() as folder:
        found = [Told(given, folder).found(given) for given in json.load(sys.stdin)]
    versions = {name: version(name) for name in ("trl", "transformers", "torch")}
    json.dump({"versions": versions, "found": found}, ANSWER)


if __name__ == "__main__":
    main()
