"""`workings eval --task`: other people's harnesses ask and score, and the evaluation is sealed as any other."""

import gc
import json
from importlib.util import find_spec
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.runs.killed import trained_and_exported
from tests.runs.tasks import inspect_file, lines, multiple_choice, questions
from workings.cli.main import app
from workings.data.generators import addition
from workings.data.rows import prompt_digest
from workings.errors import RequestError
from workings.evaluation.comparison.compare import compare
from workings.evaluation.harness import TaskRequest
from workings.evidence.verify import verify
from workings.runs.evaluate import evaluate_task, open_task
from workings.runs.open_model import WeightsRequest

for _engine in ("jax", "torch"):
    pytest.importorskip(_engine)
with_lm_eval = pytest.mark.skipif(find_spec("lm_eval") is None, reason="needs lm_eval")
with_inspect = pytest.mark.skipif(find_spec("inspect_ai") is None, reason="needs inspect_ai")
DOCS = [{"question": f"What is {k}+{k + 3}?", "answer": f"#### {2 * k + 3}"} for k in range(6)]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model as a run and as plain weights."""
    return trained_and_exported(tmp_path_factory.mktemp("tasks"))


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Data sets are kept where the test ends."""
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))


@with_lm_eval
def test_a_run_is_asked_by_its_name_sealed_compared_and_verified(made: Path, tmp_path: Path) -> None:
    task = multiple_choice(tmp_path)
    said = CliRunner().invoke(app, ["eval", str(made / "run"), "--task", str(task), "--limit", "5", "--json"])
    assert said.exit_code == 0, said.output
    unit = made / "run" / "eval" / "sums_choice"
    config = json.loads((unit / "eval_config.json").read_text())
    assert config["scorer"]["name"] == "lm-evaluation-harness acc, filter none"
    assert {key: config["source"][key] for key in ("task_versions", "few_shot", "limit")} == {
        "task_versions": {"sums_choice": "1.0"}, "few_shot": {"sums_choice": 0}, "limit": 5}
    rows = lines(unit)
    for row in rows:
        choices = json.loads(row["item_extra"])["choices"]
        likeliest = max(zip(row["log_likelihoods"], choices, strict=True))[1]
        assert (row["extracted"], row["score"]) == (likeliest, likeliest == row["gold"])
    assert len(rows) == 5
    # The same weights without the run, on the other engine.
    request = TaskRequest(name=str(task), limit=5)
    evaluate_task(str(made / "model"), request, tmp_path / "torch",
                  weights=WeightsRequest(template="gemma", engine="torch", device="cpu"))
    for row, other in zip(rows, lines(tmp_path / "torch"), strict=True):
        assert row["log_likelihoods"] == pytest.approx(other["log_likelihoods"], abs=1e-4)
    found = compare(unit, tmp_path / "torch")
    assert found.to_json()["delta"] == 0
    for path in (made / "run", tmp_path / "torch"):
        checks = verify(path, level=2).checks
        assert [f"{check.id}: {check.text}" for check in checks if check.verdict == "failed"] == []
        assert [check.verdict for check in checks if check.id == "recompute.scores"] == ["not_checked"]


@with_lm_eval
def test_what_the_model_writes_is_cut_at_stop_texts_and_filtered(made: Path, tmp_path: Path) -> None:
    task = questions(tmp_path, DOCS, 6)
    weights = WeightsRequest(template="gemma", engine="jax", device="cpu")
    request = TaskRequest(name=str(task), filter="flexible-extract", few_shot=1, max_new_tokens=8)
    evaluate_task(str(made / "model"), request, tmp_path / "out", weights=weights)
    config = json.loads((tmp_path / "out" / "eval_config.json").read_text())
    assert config["source"]["few_shot"] == {"sums_written": 1}
    assert config["decoding"]["max_new_tokens"] == 8
    for row in lines(tmp_path / "out"):
        # The example is an earlier turn of the conversation.
        assert row["prompt"].count("<start_of_turn>user") == 2
        assert row["score"] == (row["extracted"] == row["gold"])
        assert row["completion_tokens"] == {"absent": "not counted"} or row["completion_tokens"] <= 8


@with_lm_eval
def test_questions_that_the_run_learned_are_named(made: Path, tmp_path: Path) -> None:
    learned = {json.loads(line)["prompt_digest"] for line in (made / "run/data/rows.jsonl").read_text().splitlines()}
    asked = [trace.prompt for trace in addition.make(500, 1, seed=17)[0] if prompt_digest(trace.prompt) in learned][:2]
    assert len(asked) == 2
    task = questions(tmp_path, [{"question": text, "answer": "#### 1"} for text in (*asked, "What is new?")], 4)
    words = ["eval", str(made / "run"), "--task", str(task), "--out", str(tmp_path / "out"), "--json"]
    said = CliRunner().invoke(app, words)
    assert said.exit_code == 0, said.output
    assert "2 items are questions" in json.loads(said.stdout.splitlines()[-1])["warning"]


@with_inspect
@pytest.mark.filterwarnings("default")  # inspect_ai leaves streams open and calls what tenacity deprecates
def test_a_task_of_inspect_is_sealed_with_its_scores(made: Path, tmp_path: Path) -> None:
    file = inspect_file(tmp_path)
    words = ["eval", str(made / "model"), "--template", "gemma", "--device", "cpu", "--engine", "torch", "--task",
             f"inspect:{file}@sums", "--limit", "6", "--max-new-tokens", "24", "--out", str(tmp_path / "out"), "--json"]
    said = CliRunner().invoke(app, words)
    assert said.exit_code == 0, said.output
    config = json.loads((tmp_path / "out" / "eval_config.json").read_text())
    assert config["scorer"]["name"] == "inspect_ai pattern"
    assert (config["source"]["task"], config["decoding"]) == (
        "sums", {"max_new_tokens": 24, "temperature": 0.0, "samples": 1})
    rows = lines(tmp_path / "out")
    assert [row["id"] for row in rows] == [f"sum-{k}" for k in range(1, 7)]
    assert [row["score"] for row in rows] == [float(f"<answer>{row['gold']}</answer>" in row["completion"])
                                            for row in rows]
    assert [check.text for check in verify(tmp_path / "out", level=2).checks if check.verdict == "failed"] == []
    gc.collect()  # its open streams are found here, and not in the next test


@with_lm_eval
@pytest.mark.parametrize(("change", "said"), [
    ({"dataset_path": "someone/a-set", "dataset_kwargs": {}}, "cannot be opened"),
    ({"generation_kwargs": {"num_beams": 4}}, "the task's generation settings num_beams"),
    ({"output_type": "loglikelihood_rolling", "metric_list": [{"metric": "word_perplexity"}], "filter_list": None,
      "generation_kwargs": None}, "no metric that scores an item"),
    ({"output_type": "nothing"}, "cannot be opened"),
])
def test_a_task_that_cannot_be_asked_is_refused_before_a_model_is_opened(
        tmp_path: Path, change: dict[str, object], said: str) -> None:
    import yaml

    path = questions(tmp_path, DOCS, 6)
    given = yaml.safe_load(path.read_text()) | change
    path.write_text(yaml.safe_dump({key: value for key, value in given.items() if value is not None}))
    with pytest.raises(RequestError, match=said):
        open_task(TaskRequest(name=str(path)))


@pytest.mark.parametrize(("words", "said"), [
    ("--task none.yaml", "the task file none.yaml does not exist"),
    ("--task inspect:none.py@sums", "the task file none.py does not exist"),
    ("--task sums --items i.jsonl", "--task and --items cannot be combined"),
    ("--task sums --scorer math --temperature 1", "--scorer cannot be used with --task"),
    ("--items i.jsonl --limit 3 --few-shot 2", "--limit and --few-shot cannot be used without --task"),
])
def test_words_that_say_nothing_are_refused(made: Path, words: str, said: str) -> None:
    if "none" in words and find_spec("inspect_ai" if "inspect:" in words else "lm_eval") is None:
        said = " needs "
    done = CliRunner().invoke(app, ["eval", str(made / "run"), *words.split()])
    assert isinstance(done.exception, RequestError)
    assert said in str(done.exception)


def test_a_library_that_is_missing_is_named_with_the_line_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workings.runs.evaluate.find_spec", lambda name: None)
    for name, extra in (("gsm8k", "lm-eval"), ("inspect:inspect_evals/gsm8k", "inspect")):
        with pytest.raises(RequestError, match=rf"pip install 'workings\[{extra}\]'"):
            open_task(TaskRequest(name=name))
