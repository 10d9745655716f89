"""GRPO of SmolLM2 with completions that vLLM draws on a CPU: verified, and adapters that stay behind are caught.

    python -m proof.vllm_sampler --vllm /path/to/vllm [--run FINISHED_RUN]

The recipe `calculator-cpu` with a server that the run starts, a few updates of eight episodes of several turns. How far
vLLM's log probabilities and the trainer's differ on the same tokens is in every line of the log. A second run samples
during the updates, from adapters that are one update old. In a third the server keeps the adapters of the first update:
the run has to end at the next one. Writes `proof/vllm_sampler.json`.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from tools.result_file import write_result
from workings.engines.base import State
from workings.evidence.verify import verify
from workings.record.reader import RunRecord
from workings.rollouts.samplers import vllm
from workings.runs.train import train

RECIPE = "calculator-cpu"
MOST = 1e-3
"""Nats per token by which sampler and trainer may differ: a hundred times what rounding in float32 gives."""
WORDS = ("batch.micro_batch=8", "batch.accumulation=1", "training.warmup_steps=1", "checkpoint.every_steps=1",
         "checkpoint.keep_last=8", "environment.tasks=100", f"algorithm.max_mismatch={MOST}")
AHEAD = ("sampler.ahead=true", "algorithm.max_mismatch=0.5")
"""The server samples during updates; the mismatch then includes what an update changed."""


class Stale(vllm.VllmSampler):
    """Loads adapters once, and says of later ones that they were loaded."""

    def load(self, state: State) -> None:
        """As above."""
        if not self._loaded:
            super().load(state)


def words(vllm: str, steps: int) -> list[str]:
    """Overrides of the recipe."""
    return [*WORDS, f"training.steps={steps}", f"sampler={{name: vllm, command: '{vllm}'}}"]


def numbers(run: Path) -> dict[str, Any]:
    """What record and verification of a run say."""
    found, lines = verify(run), RunRecord.open(run).metrics()
    told = {check.id: check for check in found.checks}
    return {"level": found.level, "failed_checks": found.failed, "steps": len(lines),
            "episodes": told["recompute.episodes"].text, "sampler": told["consistency.rollouts"].text,
            "reward": [line["reward"] for line in lines], "mismatch": [line["mismatch"] for line in lines],
            "mismatch_most": max(line["mismatch_most"] for line in lines),
            "drawing_seconds": [round(line["drawing_seconds"], 1) for line in lines]}


def main() -> int:
    """Trains the runs, and writes what came of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vllm", default="vllm")
    parser.add_argument("--run", type=Path, help="a finished run of the first kind")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = given.run or train(RECIPE, Path(folder, "run"), words(given.vllm, 8)).run
        honest = numbers(run)
        later = train(RECIPE, Path(folder, "ahead"), [*words(given.vllm, 6), *AHEAD]).run
        rollouts = [json.loads(path.read_bytes()) for path in sorted((later / "train/rollouts").iterdir())]
        ahead = numbers(later) | {"behind": [int(rollout["sampler"]["behind"]) for rollout in rollouts]}
        vllm.VllmSampler = Stale  # type: ignore[misc]
        stale = train(RECIPE, Path(folder, "stale"), words(given.vllm, 4))
        caught = {"status": stale.status, "completed_steps": stale.steps, "reason": stale.reason}
    verified = all((one["level"], one["failed_checks"]) == (2, 0) for one in (honest, ahead))
    holds = verified and max(honest["mismatch"]) < MOST and ahead["behind"] == [0, 1, 1, 1, 1, 1] and (
        stale.status == "failed" and "sampler and the trained model disagree" in stale.reason)
    write_result(packages=["workings", "torch"], words="--vllm VLLM",
                 values={"honest": honest, "ahead": ahead, "stale": caught, "most_mismatch": MOST, "words": [*WORDS]})
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
