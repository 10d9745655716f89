"""What each of two processes does that `torchrun` started: the first asks and records, both score.

Usage: python -m torch.distributed.run --standalone --nproc-per-node 2 -m tests.distributed.two_scoring_processes OUT.
Evaluates at OUT/two, then answers the items as a run does at a step. The first process prints one JSON object, the
second writes OUT/theirs.json.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from workings.distributed.process_group import ProcessGroup
from workings.engines.base import DistributedEngine
from workings.evaluation.run import evaluate
from workings.evaluation.settings import EvaluationSettings
from workings.scoring.items import Item
from workings.scoring.worker_pool import ScoringProcess
from workings.testing.fakes import AddingEngine, AddingModel, adding_model
from workings.training.held_out_items import HeldOutItems
from workings.ways.shared_scoring import scoring_process, shares

SETTINGS = EvaluationSettings(batch_size=4, max_new_tokens=38, form="tags", seed=3)
"""Answers of two figures are cut off between them, which a scorer is told."""
ITEMS = [Item(id=f"i{n}", prompt=f"What is {n}+7?", expected_answer=str(n + 7 + n % 3), aliases=(str(n + 7),) * (n % 2),
              tolerance=0.5 * (n % 2), section=f"s{n % 2}", cluster="c" * (n % 3), extra={"source": [n, "é"]})
         for n in range(11)]
"""They differ in what a scorer reads and in what the record alone keeps."""


class Adding(AddingEngine, DistributedEngine):
    """`AddingEngine` for several processes, each of which answers all."""


@contextmanager
def scored() -> Iterator[list[list[str]]]:
    """Ids of the items of each request to a scoring process of this one."""
    asked: list[list[str]] = []
    inner = ScoringProcess.judge

    def judge(self: ScoringProcess, completions: Any) -> Any:
        asked.append([item.id for item, _, _ in completions])
        return inner(self, completions)

    ScoringProcess.judge = judge  # type: ignore[method-assign]
    try:
        yield asked
    finally:
        ScoringProcess.judge = inner  # type: ignore[method-assign]


def shared_model(group: ProcessGroup) -> AddingModel:
    """The model of the first process."""
    engine = group.coordinate(Adding())
    return replace(adding_model(), engine=engine, state=engine.init(0))


def evaluated(group: ProcessGroup, model: AddingModel, out: Path) -> dict[str, Any]:
    """Evaluates at ``out``; what a step's line says of the items."""
    scoring = partial(scoring_process, processes=group)
    evaluate(model, ITEMS, out, settings=SETTINGS, made_from=None, scoring=scoring)
    with scoring(SETTINGS) as scorer:
        return HeldOutItems(engine=model.engine, items=ITEMS[:5], tokenizer=model.tokenizer, template=model.template,
                            max_new_tokens=64, batch_size=4, scorer=scorer).evaluate(model.state)


def main(out: str) -> None:
    with ProcessGroup.of("torch", "cpu") as group, scored() as asked:
        if group.is_coordinator:
            line = evaluated(group, shared_model(group), Path(out) / "two")
            group.outcome = {}
            sys.stdout.write(json.dumps({"line": line, "asked": asked}) + "\n")
        else:
            with shares(None, SETTINGS) as tasks:
                group.work(Adding(), None, lambda: False, tasks)
            (Path(out) / "theirs.json").write_text(json.dumps(asked))


if __name__ == "__main__":
    main(sys.argv[1])
