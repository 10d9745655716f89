"""Our policy gradient is TRL's: losses and gradients of GRPO, Dr. GRPO, DAPO, CISPO and GSPO on the same numbers.

    python -m proof.trl_grpo_loss [--peers PYTHON] [--n DRAWS]

TRL lives in its own environment (`benchmarks/peers/requirements.txt` says how it is made; ``--peers`` names its
Python). Its whole `GRPOTrainer._compute_loss` is given log probabilities, masks and advantages (`proof/_trl_loss.py`),
and our objective is given the same ones with the functions of both engines, in float32. Rows differ in length and some
ratios are beyond the bounds. Exits with 3 where there is no TRL, with 1 where a number is further apart than 1e-6.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tools.result_file import ROOT, write_result
from workings.objectives.policy_gradient import ADVANTAGE, BEHAVIOR, REFERENCE, PolicyGradient
from workings.ways.rewards import Cispo, Dapo, DrGrpo, Grpo, Gspo, RewardWay

RESULT = Path(__file__).parent / "trl_grpo_loss.json"
PEERS = ROOT / "build" / "peers" / "bin" / "python"
TOLERANCE = 1e-6
"""Largest difference of a loss, and of a gradient in one log probability; both are of order one and below."""
ROWS, LENGTH = 8, 12
Numbers = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Pair:
    """TRL's settings, and ours for the same."""

    options: dict[str, Any]
    algorithm: RewardWay
    kl_beta: float = 0.0

    @property
    def objective(self) -> PolicyGradient:
        """The algorithm's, with a reference where one is asked for."""
        ours = self.algorithm.objective
        return PolicyGradient(clip_low=ours.clip_low, clip_high=ours.clip_high, ratio=ours.ratio, bound=ours.bound,
                              normalize=ours.normalize, kl_beta=self.kl_beta)


PAIRS = {
    "grpo": Pair({"loss_type": "grpo", "epsilon": 0.2}, Grpo(name="grpo")),
    # By default TRL weighs the divergence of each token by its ratio; ours is the divergence alone.
    "grpo with a reference": Pair({"loss_type": "grpo", "epsilon": 0.2, "beta": 0.04, "use_bias_correction_kl": False},
                                  Grpo(name="grpo"), 0.04),
    "dr_grpo": Pair({"loss_type": "dr_grpo", "epsilon": 0.2, "max_completion_length": LENGTH},
                    DrGrpo(name="dr_grpo", max_new_tokens=LENGTH)),
    "dapo": Pair({"loss_type": "dapo", "epsilon": 0.2, "epsilon_high": 0.28}, Dapo(name="dapo")),
    # TRL's bound is the ratio itself, ours its distance from 1; below none exists, which is a distance of 1.
    "cispo": Pair({"loss_type": "cispo", "epsilon_high": 1.4}, Cispo(name="cispo", clip_low=1.0, clip_high=0.4)),
    "gspo": Pair({"loss_type": "grpo", "importance_sampling_level": "sequence", "epsilon": 0.05, "epsilon_high": 0.1},
                 Gspo(name="gspo", clip_low=0.05, clip_high=0.1)),
}


def drawn(rng: np.random.Generator) -> Numbers:
    """Log probabilities now, then and of a reference, a mask of rows of different lengths, and advantages."""
    mask = np.arange(LENGTH) < rng.integers(1, LENGTH + 1, (ROWS, 1))
    now = -rng.exponential(size=mask.shape)
    then, reference = (now + 0.3 * rng.normal(size=now.shape) for _ in range(2))
    found = {"now": now, "then": then, "reference": reference, "mask": mask, "advantages": rng.normal(size=ROWS)}
    return {name: x.astype(np.float32) for name, x in found.items()}


def theirs(peers: Path, draws: list[Numbers]) -> dict[str, Any]:
    """What TRL finds of all draws: a list for each of `PAIRS`, one after the other."""
    common = {"beta": 0.0, "per_device_train_batch_size": ROWS, "num_generations": ROWS,
              "gradient_accumulation_steps": 1}
    given = [{"options": common | pair.options} | {name: x.tolist() for name, x in numbers.items()}
             for pair in PAIRS.values() for numbers in draws]
    # -P: a script's folder comes first otherwise, and `statistics` in this one would hide Python's.
    done = subprocess.run([peers, "-P", str(Path(__file__).parent / "_trl_loss.py")], input=json.dumps(given),
                          text=True, stdout=subprocess.PIPE, check=True, env=os.environ | {"HF_HUB_OFFLINE": "1"})
    return dict(json.loads(done.stdout))


def signals_of(numbers: Numbers) -> Numbers:
    """What our objective is told of each token."""
    return {ADVANTAGE: np.repeat(numbers["advantages"][:, None], LENGTH, 1), BEHAVIOR: numbers["then"],
            REFERENCE: numbers["reference"]}


def with_jax(pair: Pair, numbers: Numbers) -> tuple[float, np.ndarray]:
    """Loss and gradient with the functions of the JAX engine."""
    import jax

    from workings.engines.jax.objective import ARRAY

    mask, divisor = numbers["mask"], divisor_of(pair, numbers)

    def loss(x: Any) -> Any:
        return pair.objective.terms(ARRAY, x * mask, jax.numpy.asarray(mask), signals_of(numbers)).total / divisor

    value, gradient = jax.value_and_grad(loss)(jax.numpy.asarray(numbers["now"]))
    return float(value), np.asarray(gradient)


def with_torch(pair: Pair, numbers: Numbers) -> tuple[float, np.ndarray]:
    """The same with those of the PyTorch engine."""
    import torch

    from workings.engines.torch.objective import ARRAY

    now, mask = torch.tensor(numbers["now"], requires_grad=True), torch.tensor(numbers["mask"])
    terms = pair.objective.terms(ARRAY, now * mask, mask,
                                 {name: torch.tensor(x) for name, x in signals_of(numbers).items()})
    loss = terms.total / divisor_of(pair, numbers)
    [gradient] = torch.autograd.grad(loss, now)
    return loss.item(), gradient.numpy()


def divisor_of(pair: Pair, numbers: Numbers) -> float:
    """What our sum is divided by."""
    return pair.algorithm.divisor(rows=ROWS, tokens=int(numbers["mask"].sum()))


def compared(pair: Pair, found: list[dict[str, Any]], draws: list[Numbers]) -> dict[str, Any]:
    """Largest differences over all draws, and how large the compared numbers are."""
    values: dict[str, Any] = {
        "mean_size_of_loss": float(np.mean([abs(one["loss"]) for one in found])),
        "mean_share_that_trl_counts_as_clipped": float(np.mean([one["clipped"] for one in found]))}
    for name, ours in (("jax", with_jax), ("torch", with_torch)):
        apart = {"loss": 0.0, "gradient": 0.0}
        for one, numbers in zip(found, draws, strict=True):
            loss, gradient = ours(pair, numbers)
            apart = {"loss": max(apart["loss"], abs(loss - one["loss"])),
                     "gradient": max(apart["gradient"], float(np.abs(gradient - one["gradient"]).max()))}
        values[name] = {f"largest_difference_of_{key}": x for key, x in apart.items()}
    return values


def main() -> int:
    """Compare, write the result file; 1 if something is further apart than `TOLERANCE`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=Path, default=PEERS, help="Python of an environment that has TRL")
    parser.add_argument("--n", type=int, default=100, help="draws of numbers for each algorithm")
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
    draws = [drawn(rng) for _ in range(asked.n)]
    answer = theirs(asked.peers, draws)
    values: dict[str, Any] = {"draws": asked.n, "rows": ROWS, "positions": LENGTH, "tolerance": TOLERANCE,
                              "versions_of_the_peer": answer["versions"], "algorithms": {}}
    for number, (name, pair) in enumerate(PAIRS.items()):
        found = answer["found"][number * asked.n:(number + 1) * asked.n]
        values["algorithms"][name] = {"options_of_trl": pair.options} | compared(pair, found, draws)
    worst = max(x for one in values["algorithms"].values() for engine in ("jax", "torch") for x in one[engine].values())
    values["largest_difference"] = worst
    write_result(RESULT, what="Largest differences between TRL's GRPOTrainer loss and our policy gradient, and between "
                 "their gradients in the log probabilities, on the same numbers in float32.",
                 command=f"python -m proof.trl_grpo_loss --n {asked.n}", packages=["jax", "torch", "numpy"],
                 values=values)
    print(f"largest difference of {len(PAIRS)} algorithms, both engines, {asked.n} draws: {worst:.2g}")
    return int(worst > TOLERANCE)


if __name__ == "__main__":
    sys.exit(main())
