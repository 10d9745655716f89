"""TRL's own preference loss: ``python _trl_preference_loss.py < GIVEN > FOUND`` in an environment that has TRL.

GIVEN is a JSON list of objects: the ``trainer``, `dpo`, `kto`, `orpo` or `cpo`, and ``options`` of its config; ``now``
and ``mask``, ``[B, S]`` each, chosen rows first, or completions with a verdict before those for the estimate of KL;
``reference``, ``[B]``, of whole rows; ``labels``, ``[B / 2]``, the verdicts. FOUND has ``versions`` and, for each of
them in order, ``loss``, its ``gradient`` in ``now``, and TRL's own ``metrics``. All of TRL's loss runs, in float32;
only the model is not there. Without this project, which need not be installed next to TRL.
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
from trl.experimental.cpo import CPOConfig, CPOTrainer  # noqa: E402
from trl.experimental.orpo import ORPOConfig, ORPOTrainer  # noqa: E402

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


def _config(kind: Any, given: dict[str, Any], folder: str) -> Any:
    return kind(output_dir=folder, use_cpu=True, bf16=False, report_to=[], **given["options"])


class ToldKto(trl.KTOTrainer):
    """As `Told`."""

    def __init__(self, given: dict[str, Any], folder: str) -> None:
        args = _config(trl.KTOConfig, given, folder)
        self.__dict__.update(
            args=args, loss_type=args.loss_type, beta=args.beta, desirable_weight=args.desirable_weight,
            undesirable_weight=args.undesirable_weight, calculate_KL=True, aux_loss_enabled=False,
            precompute_ref_logps=True, _tp_size=1, _total_train_tokens=0, model=SimpleNamespace(training=True),
            accelerator=Accelerator(cpu=True), _metrics={"train": defaultdict(list)})

    def found(self, given: dict[str, Any]) -> dict[str, Any]:
        """Loss, gradient and metrics."""
        now, mask = torch.tensor(given["now"], requires_grad=True), torch.tensor(given["mask"])
        tokens = torch.cat([torch.zeros(len(mask), 1), mask], 1)
        count = len(mask) // 2
        reference, label = torch.tensor(given["reference"]), torch.tensor(given["labels"])
        unused = torch.zeros_like(now.detach()[:count])

        def model(**asked: Any) -> Any:
            # Only the pass for KL is without gradient.
            rows = slice(0, count) if torch.is_grad_enabled() else slice(count, None)
            return SimpleNamespace(log_probs=(now * mask)[rows], entropy=unused, mean_logits=unused)

        ids, completion = torch.zeros_like(tokens).long(), tokens.long()
        loss = self._compute_loss(model, {
            "input_ids": ids[:count], "attention_mask": torch.ones_like(tokens)[:count],
            "completion_mask": completion[:count], "KL_input_ids": ids[count:],
            "KL_attention_mask": torch.ones_like(tokens)[count:], "KL_completion_mask": completion[count:],
            "label": label, "ref_logps": reference[:count], "ref_KL_logps": reference[count:]}, False)
        [gradient] = torch.autograd.grad(loss, now)
        told = {name: values[-1] for name, values in self._metrics["train"].items()}
        right = int(label.sum())

        def over_all(name: str, sign: int) -> float:
            return (right * told.get(f"{name}/chosen", 0.0)
                    + sign * (count - right) * told.get(f"{name}/rejected", 0.0)) / count

        return {"loss": loss.item(), "gradient": gradient.tolist(), "metrics": {
            "drift": told["kl"], "implied_reward": over_all("rewards", 1), "margin": over_all("rewards", -1),
            "log_prob": over_all("logps", 1)}}


class _WithoutReference:
    """What the trainers of ORPO and CPO have in common: both ask a model for logits."""

    def found(self, given: dict[str, Any]) -> dict[str, Any]:
        """Loss, gradient and metrics."""
        now, mask = torch.tensor(given["now"], requires_grad=True), torch.tensor(given["mask"]).bool()
        # Of two tokens the second one has the given probability.
        known = torch.where(mask, now, -1.0)
        logits = torch.stack([torch.log(-torch.expm1(known)), known], -1)
        logits = torch.cat([logits, torch.zeros(len(mask), 1, 2)], 1)
        real = torch.cat([torch.zeros(len(mask), 1, dtype=torch.bool), mask], 1)
        # Rows without a prompt: TRL's ORPO imitates that as well.
        rows = {"input_ids": real.long(), "attention_mask": real.long(), "labels": torch.where(real, 1, -100)}
        batch = {f"{side}_{name}": half for name, x in rows.items()
                 for side, half in zip(("chosen", "rejected"), x.chunk(2), strict=True)}
        loss, told = self.get_batch_loss_metrics(lambda *_, **__: SimpleNamespace(logits=logits), batch)
        [gradient] = torch.autograd.grad(loss, now)
        names = METRICS | {"log_odds": "log_odds_chosen", "imitation_loss": "nll_loss"}
        return {"loss": loss.item(), "gradient": gradient.tolist(),
                "metrics": {ours: float(told[theirs]) for ours, theirs in names.items() if theirs in told}}


class ToldOrpo(_WithoutReference, ORPOTrainer):
    """As `Told`."""

    def __init__(self, given: dict[str, Any], folder: str) -> None:
        args = _config(ORPOConfig, given, folder)
        self.__dict__.update(args=args, beta=args.beta, aux_loss_enabled=False, is_encoder_decoder=False,
                             padding_value=0, accelerator=Accelerator(cpu=True))


class ToldCpo(_WithoutReference, CPOTrainer):
    """As `Told`."""

    def __init__(self, given: dict[str, Any], folder: str) -> None:
        args = _config(CPOConfig, given, folder)
        self.__dict__.update(args=args, beta=args.beta, loss_type=args.loss_type, simpo_gamma=args.simpo_gamma,
                             cpo_alpha=args.cpo_alpha, alpha=args.alpha, label_smoothing=args.label_smoothing,
                             aux_loss_enabled=False, is_encoder_decoder=False, pad_token_id=0,
                             accelerator=Accelerator(cpu=True))


TRAINERS = {"dpo": Told, "kto": ToldKto, "orpo": ToldOrpo, "cpo": ToldCpo}


def main() -> None:
    """Answer on standard output."""
    with tempfile.TemporaryDirectory() as folder:
        found = [TRAINERS[given["trainer"]](given, folder).found(given) for given in json.load(sys.stdin)]
    versions = {name: version(name) for name in ("trl", "transformers", "torch")}
    json.dump({"versions": versions, "found": found}, ANSWER)


if __name__ == "__main__":
    main()
