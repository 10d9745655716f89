"""Our preference losses are TRL's: those of DPO, IPO, KTO, ORPO and SimPO, on the same numbers.

    python -m proof.trl_dpo_loss [--peers PYTHON] [--n DRAWS]

TRL lives in its own environment (`benchmarks/peers/requirements.txt` says how it is made; ``--peers`` names its
Python). The whole loss of its trainers is given log probabilities, masks, verdicts and what a reference said
(`proof/_trl_preference_loss.py`), and our objective is given the same ones with the functions of both engines, in
float32. TRL's loss `sigmoid` has no label smoothing: that is compared with its loss `aot`, which has the same formula
where a batch is one pair. TRL's ORPO imitates prompts too, so that it is compared on rows without one. Exits with 3
where there is no TRL, with 1 where a number is further apart than 1e-6; of gradients above 1, which ORPO has where a
completion is nearly certain, than 1e-6 of the largest; of metrics, which are or are made of log probabilities of whole
rows, than 1e-6 of the size of these.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tools.result_file import ROOT, write_result
from workings.models.batch import Batch
from workings.ways.parts.row_data import with_pair_signals
from workings.ways.preferences import Dpo, Kto, Orpo, SimPo

PEERS = ROOT / "build" / "peers" / "bin" / "python"
TOLERANCE = 1e-6
"""Largest difference of a loss, and of a gradient in one log probability; both are of order one and below."""
LENGTH = 12
Numbers = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Form:
    """TRL's settings, and ours for the same."""

    options: dict[str, Any]
    algorithm: Dpo | Kto | Orpo | SimPo
    pairs: int = 4
    trainer: str = "dpo"


FORMS = {
    "sigmoid": Form({"loss_type": ["sigmoid"], "beta": 0.1}, Dpo(name="dpo")),
    "sigmoid, beta 0.5": Form({"loss_type": ["sigmoid"], "beta": 0.5}, Dpo(name="dpo", beta=0.5)),
    "length-normalized": Form({"loss_type": ["sigmoid_norm"], "beta": 2.0},
                              Dpo(name="dpo", beta=2.0, length_normalized=True)),
    "ipo": Form({"loss_type": ["ipo"], "beta": 0.3}, Dpo(name="dpo", beta=0.3, loss="ipo")),
    "label smoothing": Form({"loss_type": ["aot"], "beta": 0.1, "label_smoothing": 0.2},
                            Dpo(name="dpo", label_smoothing=0.2), pairs=1),
    "kto": Form({"beta": 0.1}, Kto(name="kto"), trainer="kto"),
    "kto, weighted": Form({"beta": 0.5, "desirable_weight": 2.0, "undesirable_weight": 0.7},
                          Kto(name="kto", beta=0.5, right_weight=2.0, wrong_weight=0.7), trainer="kto"),
    "orpo": Form({"beta": 0.1}, Orpo(name="orpo"), trainer="orpo"),
    "orpo, beta 1": Form({"beta": 1.0}, Orpo(name="orpo", beta=1.0), trainer="orpo"),
    "simpo": Form({"loss_type": "simpo", "cpo_alpha": 0.0, "beta": 2.0, "simpo_gamma": 1.0}, SimPo(name="simpo"),
                  trainer="cpo"),
}


def drawn(rng: np.random.Generator, pairs: int) -> Numbers:
    """Log probabilities, a mask of rows of different lengths, and what a reference said of rows; chosen first."""
    mask = np.arange(LENGTH) < rng.integers(1, LENGTH + 1, (2 * pairs, 1))
    # No token is nearly certain: the logits that TRL is given for ORPO would round that away.
    now = -(0.1 + rng.exponential(size=mask.shape)) * mask
    reference = ((now + 0.3 * rng.normal(size=now.shape)) * mask).sum(-1)
    return {name: x.astype(np.float32) for name, x in (("now", now), ("mask", mask), ("reference", reference))} | {
        "labels": rng.random(pairs) < 0.5}


def theirs(peers: Path, draws: Mapping[str, list[Numbers]]) -> dict[str, Any]:
    """What TRL finds of all draws: a list for each of `FORMS`, one after the other."""
    given = [{"options": form.options, "trainer": form.trainer} | {key: x.tolist() for key, x in numbers.items()}
             for name, form in FORMS.items() for numbers in draws[name]]
    # -P: a script's folder comes first otherwise, and `statistics` in this one would hide Python's.
    done = subprocess.run([peers, "-P", str(Path(__file__).parent / "_trl_preference_loss.py")],
                          input=json.dumps(given), text=True, stdout=subprocess.PIPE, check=True,
                          env=os.environ | {"HF_HUB_OFFLINE": "1"})
    return dict(json.loads(done.stdout))


def side_by_side(form: Form, numbers: Numbers) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray], np.ndarray]:
    """Our order, in which a pair's rows are side by side: log probabilities, mask, signals; and theirs of our rows."""
    order = np.arange(len(numbers["now"])).reshape(2, -1).T.reshape(-1)
    mask = numbers["mask"][order]
    names = [f"{at // 2}/{'mismatched' if at % 2 else 'right' if numbers['labels'][at // 2] else 'wrong'}"
             for at in range(len(order))]
    # The signals of a run's own batches.
    batch = with_pair_signals(replace(Batch.blank((1, *mask.shape)), loss_mask=mask[None]), [[name] for name in names],
                              dict(zip(names, numbers["reference"][order].tolist(), strict=True)),
                              form.algorithm.objective)
    return numbers["now"][order], mask, {name: x[0] for name, x in batch.signals.items()}, order


def with_jax(form: Form, numbers: Numbers) -> tuple[float, np.ndarray, dict[str, float]]:
    """Loss, gradient and metrics with the functions of the JAX engine."""
    import jax

    from workings.engines.jax.objective import ARRAY

    now, mask, signals, order = side_by_side(form, numbers)

    def loss(x: Any) -> Any:
        terms = form.algorithm.objective.terms(ARRAY, x * mask, jax.numpy.asarray(mask), signals)
        return terms.total / form.pairs, terms.metrics

    (value, metrics), gradient = jax.value_and_grad(loss, has_aux=True)(jax.numpy.asarray(now))
    return float(value), _their_order(np.asarray(gradient), order), _means(metrics)


def with_torch(form: Form, numbers: Numbers) -> tuple[float, np.ndarray, dict[str, float]]:
    """The same with those of the PyTorch engine."""
    import torch

    from workings.engines.torch.objective import ARRAY

    now, mask, signals, order = side_by_side(form, numbers)
    x, mask_BS = torch.tensor(now, requires_grad=True), torch.tensor(mask)
    terms = form.algorithm.objective.terms(ARRAY, x * mask_BS, mask_BS, {
        name: torch.tensor(signal) for name, signal in signals.items()})
    loss = terms.total / form.pairs
    [gradient] = torch.autograd.grad(loss, x)
    metrics = {name: (total.detach(), count) for name, (total, count) in terms.metrics.items()}
    return loss.item(), _their_order(gradient.numpy(), order), _means(metrics)


def _their_order(gradient: np.ndarray, order: np.ndarray) -> np.ndarray:
    found = np.empty_like(gradient)
    found[order] = gradient
    return found


def _apart(ours: np.ndarray, theirs: Any) -> float:
    """The largest difference. Raises ``ValueError`` for one that is not finite, which would compare as small."""
    apart = float(np.abs(ours - np.asarray(theirs)).max())
    if not np.isfinite(apart):
        raise ValueError("a number that is not finite")
    return apart


def _means(metrics: Mapping[str, tuple[Any, Any]]) -> dict[str, float]:
    return {name: float(total) / float(count) for name, (total, count) in metrics.items()}


def compared(form: Form, found: list[dict[str, Any]], draws: list[Numbers]) -> dict[str, Any]:
    """Largest differences over all draws, and how large the compared losses are."""
    values: dict[str, Any] = {"mean_size_of_loss": float(np.mean([abs(one["loss"]) for one in found])),
                              "mean_margin_by_trl": float(np.mean([one["metrics"]["margin"] for one in found]))}
    for name, ours in (("jax", with_jax), ("torch", with_torch)):
        apart = dict.fromkeys(("loss", "gradient", "metric"), 0.0)
        for one, numbers in zip(found, draws, strict=True):
            loss, gradient, metrics = ours(form, numbers)
            apart["loss"] = max(apart["loss"], _apart(np.array(loss), one["loss"]))
            apart["gradient"] = max(apart["gradient"], _apart(gradient, one["gradient"])
                                    / max(1.0, float(np.abs(one["gradient"]).max())))
            # Metrics are or are made of log probabilities of rows, all below 0.
            size = max(1.0, form.algorithm.beta) * (1 - sum(x for key, x in metrics.items() if "log_prob" in key))
            apart["metric"] = max(apart["metric"], *(
                abs(metrics[key] - theirs) / size for key, theirs in one["metrics"].items()
                if key in metrics))
        values[name] = {f"largest_difference_of_{key}": x for key, x in apart.items()}
    return values


def main() -> int:
    """Compare, write the result file; 1 if something is further apart than `TOLERANCE`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=Path, default=PEERS, help="Python of an environment that has TRL")
    parser.add_argument("--n", type=int, default=100, help="draws of numbers for each form of the loss")
    asked = parser.parse_args()
    if not asked.peers.is_file() or subprocess.run([asked.peers, "-c", "import trl"], capture_output=True,
                                                   check=False).returncode:
        print(f"not measured: {asked.peers} is no Python that has TRL; benchmarks/peers/requirements.txt says how such "
              "an environment is made, and --peers names its Python")
        return 3
    import jax

    # An installed libtpu would otherwise be started by the first array.
    jax.config.update("jax_platforms", "cpu")
    rng = np.random.default_rng(20261123)
    draws = {name: [drawn(rng, form.pairs) for _ in range(asked.n)] for name, form in FORMS.items()}
    answer = theirs(asked.peers, draws)
    values: dict[str, Any] = {"draws": asked.n, "positions": LENGTH, "tolerance": TOLERANCE,
                              "versions_of_the_peer": answer["versions"], "forms": {}}
    for number, (name, form) in enumerate(FORMS.items()):
        found = answer["found"][number * asked.n:(number + 1) * asked.n]
        values["forms"][name] = {"options_of_trl": form.options, "pairs": form.pairs} | compared(
            form, found, draws[name])
    worst = max(x for found in values["forms"].values() for one in (found["jax"], found["torch"])
                for x in one.values())
    values["largest_difference"] = worst
    write_result(packages=["jax", "torch", "numpy"], words=f"--n {asked.n}", values=values)
    print(f"largest difference of {len(FORMS)} forms, both engines, {asked.n} draws: {worst:.2g}")
    return int(worst > TOLERANCE)


if __name__ == "__main__":
    sys.exit(main())
