"""How often `verify --level 3 --confidence` finds a splice, against the probability that it states.

A run of a small engine takes 120 steps and keeps a checkpoint every ten; another one takes the same batches from other
first weights. Two hundred times a part of the first one is replaced, at a place and of a length that chance decides,
and everything is sealed again so that levels 0 to 2 pass:

- invented: the losses of some steps in a row, in the metrics and in every text;
- joined: from one step on all steps, with their checkpoints, are those of the other run;
- inserted: some steps in a row, with their checkpoints, are those of the other run;
- answers: the completions of some items of its evaluation.

Each is verified once with its own seed. Of a splice the exact probability is known, because its place is; the mean
of these has to be the share that was found, within four standard deviations, and none may be below what is stated for
the worst place. Fails (exit code 1) where one of these does not hold, or where levels 0 to 2 find a splice.
"""

import argparse
import json
import math
import random
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.evidence import reseal
from tests.evidence.records import score_here
from tests.runs.pinned import pin_code_version
from tests.runs.runs_helpers import OTHER_PACKAGE, RECIPE, write_recipe
from tools.result_file import write_result
from workings.data.generators import addition
from workings.data.generators.base import write_items
from workings.evaluation.summary import EvaluationSummary
from workings.evidence.replay.coverage import probability_above
from workings.evidence.verify import verify
from workings.runs.replay.replay import ReplayRequest, replay_run
from workings.runs.train_and_evaluate import train_and_evaluate
from workings.testing.unigram import UnigramEngine

RESULT = Path(__file__).parent / "splices.json"
STEPS, EVERY, ITEMS, BATCH, LONGEST = 120, 10, 60, 4, 40
CONFIDENCES = (0.5, 0.95)
SPLICE = 0.1
FROM_THE_OTHER = ("loss", "grad_norm", "share_of_weights_changed")
"""Keys of a step that another state decides; times and memory stay, or another file would tell."""


@dataclass(frozen=True)
class Fake:
    """What was spliced in."""

    kind: str
    length: int
    """Steps in a row, or items."""
    wrong: frozenset[int]
    """Numbers of the stretches, or batches, that each find it."""


def main() -> int:
    """Splice, verify, count; write the result file and print one line a group."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splices", type=int, default=200, help="number of splices")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        score_here(patch)
        base = Path(folder, "base")
        trained(base, patch)
        chance = random.Random(17)  # noqa: S311 - the same splices each time
        tried = [one(base, Path(folder, "work"), list(KINDS)[number % len(KINDS)],
                     CONFIDENCES[number // len(KINDS) % len(CONFIDENCES)], chance)
                 for number in range(asked.splices)]
    groups = {named(confidence): {kind: summed([row for row in tried if (row["kind"], row["confidence"]) == (
        kind, confidence)]) for kind in KINDS} for confidence in CONFIDENCES}
    groups |= {"all": {"all": summed(tried)}}
    problems = [f"{confidence}, {kind}: {problem}" for confidence, table in groups.items()
                for kind, group in table.items() for problem in wrong(group)]
    problems += [f"levels 0 to 2 find a splice: {row}" for row in tried if row["lower"]]
    write_result(RESULT, what="Shares of random splices of a run that level 3 found, next to the stated probabilities.",
                 command=f"python -m proof.splices --splices {asked.splices}", packages=["numpy", "safetensors"],
                 values={"steps": STEPS, "checkpoint_every": EVERY, "items": ITEMS, "batch": BATCH, "splice": SPLICE,
                         "groups": groups, "asked_for": lengths_asked_for(tried), "problems": problems})
    for confidence, table in groups.items():
        for kind, group in table.items():
            print(f"{confidence:13} {kind:9} {group['found']:3} of {group['tried']:3} found, expected "
                  f"{group['expected']:.1f}, stated for the worst place {group['stated']:.1f}")
    print(*problems, sep="\n")
    return 1 if problems else 0


def named(confidence: float) -> str:
    """A confidence as a key that documents can quote: without a dot."""
    return f"confidence_{confidence:.0%}".rstrip("%")


def trained(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """The run, and the one that parts of it are replaced by, below `runs`; and the data that both learned from."""
    patch.syspath_prepend(str(OTHER_PACKAGE))
    pin_code_version(patch)
    recipe = write_recipe(folder / "asked", RECIPE.replace("steps: 12", f"steps: {STEPS}").replace(
        "every_steps: 3, keep_last: 2", f"every_steps: {EVERY}, keep_last: {STEPS // EVERY}").replace(
        "traces: held_out.jsonl", "traces: none, base: false").replace(
        "every_steps: 4", f"every_steps: {STEPS}").replace("batch_size: 8", f"batch_size: {BATCH}"))
    write_items(folder / "asked" / "items.jsonl", addition.make(40, ITEMS, 5)[1])
    train_and_evaluate(str(recipe), folder / "runs" / "a")
    init = UnigramEngine.init

    def elsewhere(engine: UnigramEngine, seed: int, *, trainable: bool = True) -> Any:
        state = init(engine, seed, trainable=trainable)
        return state | {"logits": init(engine, seed + 1)["logits"]}

    with patch.context() as other:
        other.setattr(UnigramEngine, "init", elsewhere)
        train_and_evaluate(str(recipe), folder / "runs" / "b")


def one(base: Path, work: Path, kind: str, confidence: float, chance: random.Random) -> dict[str, Any]:
    """One splice, sealed again and verified with its own seed."""
    shutil.copytree(base, work)
    run = work / "runs" / "a"
    fake = KINDS[kind](run, work / "runs" / "b", chance)
    reseal.tell_again(run)
    reseal.reseal(run)
    request = ReplayRequest(confidence=confidence, tampered_share=SPLICE, seed=chance.getrandbits(32))
    facts: dict[str, Any] = {}

    def replayed(path: Path, samples: tuple[Path, ...]) -> dict[str, Any]:
        facts.update(replay_run(path, request).facts)
        return facts

    failed = [check for check in verify(run, level=3, replay=replayed).checks if check.verdict == "failed"]
    shutil.rmtree(work)
    return {"kind": kind, "confidence": confidence, "length": fake.length,
            "found": any(check.level == 3 for check in failed),
            "lower": [check.id for check in failed if check.level < 3], **probabilities(fake, facts["coverage"])}


def probabilities(fake: Fake, coverage: dict[str, Any]) -> dict[str, float]:
    """Of this very splice, and what is stated for its kind and length at the worst place."""
    if fake.kind == "answers":
        batches = -(-ITEMS // BATCH)
        drawn = coverage["answers"][0]["asked"] // BATCH
        stated = probability_above(0, population=batches, wrong=-(-fake.length // BATCH), drawn=drawn)
        return {"exact": probability_above(0, population=batches, wrong=len(fake.wrong), drawn=drawn), "stated": stated}
    steps = coverage["steps"]
    others, drawn = steps["stretches"] - 1, steps["drawn"] - 1
    exact = 1.0 if others in fake.wrong else probability_above(0, population=others, wrong=len(fake.wrong), drawn=drawn)
    if fake.kind == "invented":
        met = -(-fake.length // EVERY)
        return {"exact": exact, "stated": probability_above(0, population=others, wrong=min(met, others), drawn=drawn)}
    return {"exact": exact, "stated": steps["joint"]}


def summed(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Of one group: how many were found, expected to be, and stated for the worst place."""
    return {"tried": len(rows), "found": sum(row["found"] for row in rows),
            "expected": round(sum(row["exact"] for row in rows), 2),
            "stated": round(sum(row["stated"] for row in rows), 2),
            "deviation": round(math.sqrt(sum(row["exact"] * (1 - row["exact"]) for row in rows)), 2),
            "below_stated": sum(row["exact"] < row["stated"] - 1e-12 for row in rows)}


def wrong(group: dict[str, Any]) -> list[str]:
    """What does not hold of a group."""
    problems = [f"{group['below_stated']} below the stated probability"] if group["below_stated"] else []
    if abs(group["found"] - group["expected"]) > 4 * group["deviation"] + 0.01:
        problems.append(f"found {group['found']}, expected {group['expected']}")
    return problems


def lengths_asked_for(rows: list[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """Invented steps and answers that are as long as was asked about, or longer: tried and found."""
    long = {"invented": math.ceil(SPLICE * STEPS), "answers": math.ceil(SPLICE * ITEMS)}
    found = {}
    for confidence in CONFIDENCES:
        some = [row for row in rows if row["confidence"] == confidence
                and row["length"] >= long.get(row["kind"], STEPS + 1)]
        found[named(confidence)] = {"tried": len(some), "found": sum(row["found"] for row in some)}
    return found


def invented(run: Path, other: Path, chance: random.Random) -> Fake:
    """Better losses of some steps in a row."""
    del other
    length = chance.randint(1, LONGEST)
    first = chance.randint(1, STEPS - length + 1)
    steps = range(first, first + length)
    reseal.edit_lines(run / "train/metrics.jsonl", lambda rows: [
        row | ({"loss": row["loss"] * 0.999} if row["step"] in steps else {}) for row in rows])
    return Fake("invented", length, frozenset((step - 1) // EVERY for step in steps))


def joined(run: Path, other: Path, chance: random.Random) -> Fake:
    """The other run from one step on."""
    first = chance.randint(1, STEPS)
    replace_steps(run, other, range(first, STEPS + 1))
    return Fake("joined", STEPS + 1 - first, frozenset({(first - 1) // EVERY}))


def inserted(run: Path, other: Path, chance: random.Random) -> Fake:
    """Some steps in a row of the other run: wrong where they begin, and where the first run goes on."""
    length = chance.randint(1, LONGEST)
    first = chance.randint(1, STEPS - length + 1)
    replace_steps(run, other, range(first, first + length))
    turns = [first, *([first + length] if first + length <= STEPS else [])]
    return Fake("inserted", length, frozenset((step - 1) // EVERY for step in turns))


def answers(run: Path, other: Path, chance: random.Random) -> Fake:
    """Completions of some items that the model did not write."""
    del other
    unit = run / "eval" / "items"
    numbers = chance.sample(range(ITEMS), chance.randint(1, ITEMS // 4))
    reseal.edit_lines(unit / "predictions.jsonl", lambda rows: [
        row | ({"completion": "z" + row["completion"][1:]} if number in numbers else {})
        for number, row in enumerate(rows)])
    again = EvaluationSummary(unit / "predictions.jsonl", "mean")
    reseal.edit_json(unit / "eval_summary.json", lambda value: again.to_json(value["problems"]))
    (unit / "samples.md").write_text(again.samples_text())
    return Fake("answers", len(numbers), frozenset(number // BATCH for number in numbers))


KINDS: dict[str, Callable[[Path, Path, random.Random], Fake]] = {
    each.__name__: each for each in (invented, joined, inserted, answers)}


def replace_steps(run: Path, other: Path, steps: range) -> None:
    """Take the numbers of these steps, and the tensors of the checkpoints among them, from the other run."""
    theirs = [json.loads(line) for line in (other / "train/metrics.jsonl").read_bytes().splitlines()]
    reseal.edit_lines(run / "train/metrics.jsonl", lambda rows: [
        row | ({key: theirs[row["step"] - 1][key] for key in FROM_THE_OTHER} if row["step"] in steps else {})
        for row in rows])
    for checkpoint in (run / "checkpoints").iterdir():
        if int(checkpoint.name.removeprefix("step_")) in steps:
            for file in checkpoint.glob("*.safetensors"):
                shutil.copy(other / "checkpoints" / checkpoint.name / file.name, file)
            reseal.recommit(checkpoint)


if __name__ == "__main__":
    sys.exit(main())
