"""lm-evaluation-harness asks our export by itself: no code of ours, no network; our scores of its texts are its own."""

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.evaluation.making import records, write_lines
from workings.data.generators import addition
from workings.evaluation.harness import scored_answer
from workings.evaluation.run import evaluate_predictions
from workings.models.chat import ChatTemplate
from workings.models.tokenizer import Tokenizer
from workings.record.layout import TOKENIZER
from workings.scoring.items import item_from_json

pytestmark = pytest.mark.full  # a log that the harness wrote is read in `test_harness.py`
Run = Callable[..., "CompletedProcess[str]"]
RUNS = Path(__file__).parents[2] / "examples" / "runs" / "quickstart" / "runs.zip"
COUNT = 24
TASK = """task: local_addition
dataset_path: json
dataset_kwargs: {data_files: {test: DOCS}}
test_split: test
output_type: generate_until
doc_to_text: "{{text}}"
doc_to_target: "{{target}}"
generation_kwargs: {until: ["<end_of_turn>"], do_sample: false, max_gen_toks: 8}
filter_list:
  - name: number
    filter: [{function: regex, regex_pattern: "(-?[0-9]+)"}, {function: take_first}]
metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The committed run that was trained on answers alone: some of its answers are right, most are wrong."""
    folder = tmp_path_factory.mktemp("example")
    with zipfile.ZipFile(RUNS) as archive:
        archive.extractall(folder, [name for name in archive.namelist() if name.startswith("runs/answer-only/")])
    return folder / "runs" / "answer-only"


@pytest.fixture(scope="module")
def log(run: Path, tmp_path_factory: pytest.TempPathFactory, workings: Run, run_python: Run) -> Path:
    """The harness's sample log of the run's export."""
    folder = tmp_path_factory.mktemp("harness")
    workings("export", run, "--out", folder / "model")
    template = ChatTemplate.for_config("gemma", Tokenizer.load(run / TOKENIZER))
    asked = addition.make(500, 600, 17)[1][:COUNT]
    docs = write_lines(folder / "docs.jsonl", [
        {"id": item.id, "text": template.prompt_text(item.prompt), "target": item.expected_answer} for item in asked])
    (folder / "task").mkdir()
    (folder / "task" / "addition.yaml").write_text(TASK.replace("DOCS", str(docs)))
    run_python("-m", "lm_eval", "--model", "hf", "--model_args",
               f"pretrained={folder / 'model'},dtype=float32,add_bos_token=False", "--tasks", "local_addition",
               "--include_path", folder / "task", "--device", "cpu", "--batch_size", "8", "--log_samples",
               "--output_path", folder / "out", cwd=folder,
               environment={"HF_HOME": str(folder / "home"), "HF_DATASETS_OFFLINE": "1"})
    (found,) = (folder / "out").rglob("samples_*.jsonl")
    return found


def test_our_scores_of_its_texts_are_its_own(run: Path, log: Path, tmp_path: Path, workings: Run) -> None:
    theirs = {json.loads(line)["doc"]["id"]: json.loads(line)["exact_match"] for line in log.read_text().splitlines()}
    assert len(theirs) == COUNT
    assert 0 < sum(theirs.values()) < COUNT, "right and wrong answers are needed to agree about"
    answers = [scored_answer(json.loads(line), "exact_match", log.name) for line in log.read_text().splitlines()]
    texts = write_lines(tmp_path / "texts.jsonl", [{"id": each.item.id, "completion": each.text} for each in answers])
    evaluate_predictions(texts, [each.item for each in answers], tmp_path / "ours")
    ours = {record["id"]: record["score"] for record in records(tmp_path / "ours")}
    assert list(ours.values()) == list(theirs.values())

    # and what our engine writes for the same questions is what transformers wrote
    asked = addition.make(500, 600, 17)[1][:COUNT]
    items = [item_from_json(vars(item)) for item in asked]
    write_lines(tmp_path / "items.jsonl", [item.to_json() for item in items])
    workings("eval", run, "--items", tmp_path / "items.jsonl", "--out", tmp_path / "engine", "--max-new-tokens", "8")
    written = [record["completion"] for record in records(tmp_path / "engine")]
    assert written == [each.text for each in answers]
    assert [record["score"] for record in records(tmp_path / "engine")] == list(theirs.values())
