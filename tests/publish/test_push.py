"""`workings push`: nothing without consent, the very bytes with it, and a record that verifies after a download."""

import json
import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import create_autospec

import pytest
import yaml
from typer.testing import CliRunner

from tests.record import synthetic
from tests.runs.killed import trained_and_exported, write_recipe
from tests.runs.runs_helpers import refused as cli_refuses
from workings.cli.main import app
from workings.errors import RequestError
from workings.evidence.verify import verify
from workings.models.families.standard import GEMMA_TERMS
from workings.publish.export import export_run
from workings.publish.push import PushRequest, prepare
from workings.runs.evaluate import evaluate_run
from workings.runs.train import train

pytestmark = pytest.mark.slow
httpx = pytest.importorskip("httpx")
huggingface_hub = pytest.importorskip("huggingface_hub")
HfHubHTTPError = pytest.importorskip("huggingface_hub.errors").HfHubHTTPError
REPO, ADDRESS = "someone/small-model", "https://huggingface.co/someone/small-model/commit/1"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Represents the Hub's client, with its signatures; `files` are those of the last commit."""
    api = create_autospec(huggingface_hub.HfApi, instance=True)
    api.files = {}

    def commit(repo: str, operations: list[Any], commit_message: str) -> SimpleNamespace:
        for operation in operations:
            with operation.as_file() as file:
                api.files[operation.path_in_repo] = file.read()
        return SimpleNamespace(commit_url=ADDRESS)

    api.create_commit.side_effect = commit
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda: api)
    monkeypatch.setattr(huggingface_hub, "get_token", lambda: "hf_standin")
    return api


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Gemma 3 that began with random weights, with an evaluation."""
    folder = trained_and_exported(tmp_path_factory.mktemp("pushed"))
    items = folder / "items.jsonl"
    items.write_text("".join(json.dumps({"id": str(i), "prompt": f"What is {i}+1?", "expected_answer": str(i + 1)})
                             + "\n" for i in range(4)))
    evaluate_run(folder / "run", items, folder / "run" / "eval" / "items")
    return folder / "run"


@pytest.fixture(scope="module")
def tuned(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that resumed from the exported one, as from any folder of Gemma's family."""
    folder = tmp_path_factory.mktemp("tuned")
    shutil.copytree(run.with_name("model"), folder / "base")
    recipe = write_recipe(folder)
    recipe.write_text(re.sub(r"model:\n.*\n.*\ntokenizer: train", "model: {source: pretrained, id: base}\n"
                             "tokenizer: model", recipe.read_text()))
    train(str(recipe), folder / "runs" / "tuned", ["engine=torch"])
    return folder / "runs" / "tuned"


def typed(*words: object) -> tuple[dict[str, Any], str]:
    """The answer of `workings push`, and what it shows."""
    done = CliRunner().invoke(app, ["push", *map(str, words), "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


def test_without_yes_everything_is_shown_and_nothing_is_asked_of_the_hub(run: Path, hub: Any) -> None:
    said, shown = typed(run, REPO)
    assert hub.mock_calls == []
    assert not said["uploaded"]
    assert {"README.md", "model.safetensors", "record.zip", "export_info.json", "tokenizer.json"} <= set(said["files"])
    assert list(said["texts"]) == ["runs/run/eval/items/predictions.jsonl"]
    for name, size in said["files"].items():
        assert f"{size:,}  {name}" in shown
    assert said["card"] in shown
    assert not list(run.parent.glob(".push-*"))


def test_the_hub_gets_the_very_bytes_and_the_record_verifies_after_a_download(
        run: Path, hub: Any, tmp_path: Path) -> None:
    model = export_run(run, tmp_path / "model").directory
    said, _ = typed(model, REPO, "--run", run, "--license", "MIT", "--private", "--yes")
    assert said["address"] == ADDRESS
    assert hub.create_repo.call_args.kwargs["private"]
    assert {name: len(data) for name, data in hub.files.items()} == said["files"]
    for file in model.iterdir():
        assert hub.files[file.name] == file.read_bytes()
    (tmp_path / "record.zip").write_bytes(hub.files["record.zip"])
    found = verify(tmp_path / "record.zip", expect_root=said["root"])
    assert [check.id for check in found.checks if check.verdict == "failed"] == []
    assert found.level == 2
    card = hub.files["README.md"].decode()
    metadata = yaml.safe_load(card.split("---")[1])
    assert metadata["license"] == "mit"
    assert metadata["library_name"] == "transformers"
    assert "base_model" not in metadata
    [result] = metadata["model-index"][0]["results"]
    assert result["metrics"][0]["type"] == "accuracy"
    assert re.search(r"\| all \| 4 \| \d \| [\d.]+ \| [\d.]+ \| [\d.]+ \|", card)
    assert said["root"] in card


def refused(model: Path, sentence: str, folder: Path, **request: Any) -> None:
    with pytest.raises(RequestError, match=sentence):
        prepare(model, PushRequest(**{"repo": REPO, **request}), folder)


def test_a_folder_that_is_not_as_it_was_exported_is_refused(run: Path, tmp_path: Path) -> None:
    model = export_run(run, tmp_path / "model").directory
    refused(model, r"the run that .* was made from is not at runs/run", tmp_path)
    (model / "tokenizer.json").unlink()
    refused(model, "tokenizer.json is missing", tmp_path, run=run)
    (model / "notes.txt").write_text("mine")
    refused(model, "notes.txt was not exported", tmp_path, run=run)
    (model / "config.json").write_text("{}")
    refused(model, "config.json was changed", tmp_path, run=run)


def test_what_cannot_be_pushed_is_refused(run: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    refused(run, "tiny is no name of a repository", tmp_path, repo="tiny")
    refused(run, r"Cannot have -- or \.\.", tmp_path, repo="a/b--c")
    refused(tmp_path / "empty", "is neither a sealed run nor an exported folder", tmp_path)
    refused(synthetic.sealed_run(tmp_path / "cut", "interrupted", 4), "cut is interrupted: ", tmp_path)
    refused(run, "needs an exported folder", tmp_path, run=run)


def test_what_a_hub_refuses_is_said(run: Path, hub: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = httpx.Response(401, request=httpx.Request("POST", ADDRESS))
    for error, sentence in ((HfHubHTTPError("Invalid token", response=answer), f"the Hub refuses {REPO}: Invalid"),
                            (httpx.ConnectError("unreachable"), f"the upload to {REPO} failed: unreachable")):
        hub.create_repo.side_effect = error
        assert sentence in cli_refuses("push", run, REPO, "--yes")
    hub.create_repo.side_effect = None
    hub.model_info.return_value.private = False
    assert "--private cannot change" in cli_refuses("push", run, REPO, "--private", "--yes")
    monkeypatch.setattr(huggingface_hub, "get_token", lambda: None)
    assert "no token of the Hugging Face Hub" in cli_refuses("push", run, REPO, "--yes")
    assert hub.files == {}


@pytest.mark.parametrize(("facts", "request_", "licence", "sentence"), [
    (GEMMA_TERMS, {}, "", "Gemma Terms of Use .* not under a permissive licence"),
    (GEMMA_TERMS, {"licence": "mit", "accept_terms": True}, "", "--license cannot be mit: the base m is under gemma"),
    ("apache-2.0, Apache License 2.0", {}, "apache-2.0", ""),
    ("Apache License 2.0", {"licence": "mit"}, "mit", ""),
    ("apache-2.0, cc-by-nc-4.0", {}, "", "names several licences: apache-2.0, cc-by-nc-4.0"),
    ("not named in the file", {}, "", "names no licence that is known here"),
    ({"absent": "unknown"}, {"licence": "mit"}, "mit", ""),
    ({"absent": "unknown"}, {"licence": "llama3.2"}, "", "the terms `llama3.2`, not under a permissive licence"),
    ({"absent": "unknown"}, {"licence": "llama3.2", "accept_terms": True}, "llama3.2", "")])
def test_what_a_licence_forbids_needs_a_word(tuned: Path, monkeypatch: pytest.MonkeyPatch, facts: Any,
                                             request_: dict[str, Any], licence: str, sentence: str) -> None:
    from workings.publish import push
    from workings.record.reader import RunRecord

    monkeypatch.setattr(push, "model_facts", lambda run: {"id": "m", "licence": facts})
    request = PushRequest(repo=REPO, **request_)
    if sentence:
        with pytest.raises(RequestError, match=sentence):
            push.licence_of(RunRecord.open(tuned), request)
    else:
        assert push.licence_of(RunRecord.open(tuned), request) == licence


def test_gemmas_terms_go_with_the_model_whatever_a_card_says(tuned: Path, tmp_path: Path) -> None:
    refused(tuned, "is under Gemma Terms of Use", tmp_path)
    card = tuned.parent.parent / "base" / "README.md"
    card.write_text("---\nlicense: mit\n---\n")
    refused(tuned, "names several licences: gemma, mit", tmp_path)
    card.unlink()
    made = prepare(tuned, PushRequest(repo=REPO, accept_terms=True), tmp_path)
    assert b"ai.google.dev/gemma/terms" in made.files["NOTICE"]
    assert yaml.safe_load(made.card.split("---")[1])["license"] == "gemma"
    assert "prohibited_use_policy" in made.card
