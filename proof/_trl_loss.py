"""TRL's own loss of given log probabilities: ``python _trl_loss.py < GIVEN > FOUND`` in an environment that has TRL.

GIVEN is a JSON list of objects: ``options`` of `trl.GRPOConfig`; ``now``, ``then``, ``reference`` and ``mask``,
``[B, S]`` each; ``advantages`` ``[B]``. FOUND has ``versions`` and, for each of them in order, ``loss``, its
``gradient`` in ``now``, and the share of ``clipped`` tokens. All of TRL's `_compute_loss` runs, in float32; only the
model is not there. Without this project, which need not be installed next to TRL.
"""

import json
import os
import sys
import tempfile
from collections import defaultdict
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

# What an import prints must not be in the answer.
ANSWER, sys.stdout = sys.stdout, sys.stderr
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import torch  # noqa: E402
import trl  # noqa: E402
from accelerate import Accelerator  # noqa: E402


class Told(trl.GRPOTrainer):
    """A trainer that is told log probabilities instead of asking a model."""

    def __init__(self, given: dict[str, Any], folder: str) -> None:
        # Not the trainer's own, which wants a model, prompts and rewards; what it takes from its settings is set here.
        args = trl.GRPOConfig(output_dir=folder, use_cpu=True, bf16=False, report_to=[], **given["options"])
        self.__dict__.update(
            args=args, loss_type=args.loss_type, importance_sampling_level=args.importance_sampling_level,
            beta=args.beta, epsilon_low=args.epsilon,
            epsilon_high=args.epsilon if args.epsilon_high is None else args.epsilon_high,
            max_completion_length=args.max_completion_length, top_entropy_quantile=args.top_entropy_quantile,
            off_policy_mask_threshold=args.off_policy_mask_threshold, use_vllm=False, aux_loss_enabled=False,
            _entropy_bonus_enabled=False, current_gradient_accumulation_steps=args.gradient_accumulation_steps,
            model=SimpleNamespace(training=True), accelerator=Accelerator(cpu=True),
            _metrics={"train": defaultdict(list)})
        self.now = torch.tensor(given["now"], requires_grad=True)

    def _get_per_token_logps_and_entropies(self, *_: Any, **__: Any) -> tuple[Any, Any, None]:
        return self.now, torch.zeros_like(self.now), None

    def found(self, given: dict[str, Any]) -> dict[str, Any]:
        """Loss, gradient and share of clipped tokens."""
        mask = torch.tensor(given["mask"])
        inputs = {"prompt_ids": torch.ones((len(mask), 1), dtype=torch.int64), "prompt_mask": torch.ones(len(mask), 1),
                  "completion_ids": torch.ones(mask.shape, dtype=torch.int64), "completion_mask": mask,
                  "advantages": torch.tensor(given["advantages"]), "old_per_token_logps": torch.tensor(given["then"]),
                  "ref_per_token_logps": torch.tensor(given["reference"]), "num_items_in_batch": mask.sum()}
        loss = self._compute_loss(None, inputs)
        [gradient] = torch.autograd.grad(loss, self.now)
        metrics = self._metrics["train"]
        clipped = metrics["cispo_clip_ratio" if self.loss_type == "cispo" else "clip_ratio/region_mean"][-1]
        return {"loss": loss.item(), "gradient": gradient.tolist(), "clipped": clipped}


def main() -> None:
    """Answer on standard output."""
    with tempfile.TemporaryDirectory() as folder:
        found = [Told(given, folder).found(given) for given in json.load(sys.stdin)]
    versions = {name: version(name) for name in ("trl", "transformers", "torch")}
    json.dump({"versions": versions, "found": found}, ANSWER)


if __name__ == "__main__":
    main()
