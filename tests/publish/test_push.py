"""`workings push`: nothing without consent, the very bytes with it, and a record that verifies after a download."""

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml

from tests import kept_folders
from tests.http_server import serving
from tests.models import hub_server
from tests.models.hub_server import COMMIT
from tests.models.hub_server import REPOSITORY as REPO
from tests.record import synthetic
from tests.runs.killed import write_recipe
from workings.errors import RequestError
from workings.evidence.verify import verify
from workings.models.families.standard import GEMMA_TERMS
from workings.publish.export import export_run
from workings.publish.push import PushRequest, prepare
from workings.runs.evaluate import evaluate_run
from workings.runs.train import train

pytestmark = pytest.mark.slow
pytest.importorskip("huggingface_hub")
TOKEN = "hf_standin"


class Hub(hub_server.Hub):
    """Takes uploads as the Hub does: large files by Git LFS, small ones in the commit."""

    stored: ClassVar[dict[str, bytes]] = {}

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        path = self.path.split("?")[0]
        self.asked.append(path)
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self.say(401, {"error": "Invalid username or password."})
        elif path.endswith("/api/repos/create"):
            self.private.append(json.loads(body).get("visibility") == "private")
            self.say(200, {"url": f"{self.address}/{REPO}"})
        elif path.endswith("/api/validate-yaml"):
            self.say(200, {"errors": [], "warnings": []})
        elif "/preupload/" in path:
            self.say(200, {"files": [{"path": file["path"], "shouldIgnore": False, "uploadMode": "lfs" if
                                      file["path"].endswith((".safetensors", ".zip")) else "regular"}
                                     for file in json.loads(body)["files"]]})
        elif path.endswith("/info/lfs/objects/batch"):
            self.say(200, {"transfer": "basic", "objects": [
                {**row, "actions": {"upload": {"href": f"{self.address}/lfs/{row['oid']}"}}}
                for row in json.loads(body)["objects"]]})
        else:
            self.commit(body)

    def commit(self, body: bytes) -> None:
        for row in map(json.loads, body.splitlines()):
            value = row["value"]
            if row["key"] == "file":
                self.files[value["path"]] = base64.b64decode(value["content"])
            elif row["key"] == "lfsFile":
                self.files[value["path"]] = self.stored[value["oid"]]
        self.say(200, {"commitOid": COMMIT, "commitUrl": f"{self.address}/{REPO}/commit/{COMMIT}"})

    def do_PUT(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        if hashlib.sha256(data).hexdigest() == self.path.rpartition("/")[2]:
            self.stored[self.path.rpartition("/")[2]] = data
            self.say(200, {})
        else:
            self.say(400, {"error": "other bytes"})

    @property
    def address(self) -> str:
        return f"http://{self.headers['Host']}"


@contextmanager
def hub() -> Iterator[tuple[str, type[Hub]]]:
    kind = type("OneHub", (Hub,), {"files": {}, "stored": {}, "asked": [], "private": []})
    with serving(kind) as address:
        yield address, kind


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Gemma 3 from random weights after six steps, with an evaluation."""
    def make(folder: Path) -> None:
        train(str(write_recipe(folder)), folder / "runs" / "tiny")
        items = folder / "items.jsonl"
        items.write_text("".join(json.dumps({"id": str(i), "prompt": f"What is {i}+1?", "expected_answer": str(i + 1)})
                                 + "\n" for i in range(4)))
        evaluate_run(folder / "runs" / "tiny", items, folder / "runs" / "tiny" / "eval" / "items")

    return kept_folders.copy(make, tmp_path_factory.mktemp("pushed"), "pushed") / "runs" / "tiny"


@pytest.fixture(scope="module")
def tuned(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that resumed from the exported one, as from any folder of Gemma's family."""
    folder = tmp_path_factory.mktemp("tuned")
    export_run(run, folder / "base")
    recipe = write_recipe(folder)
    recipe.write_text(re.sub(r"model:\n.*\n.*\ntokenizer: train", "model: {source: pretrained, id: base}\n"
                             "tokenizer: model", recipe.read_text()))
    train(str(recipe), folder / "runs" / "tuned")
    return folder / "runs" / "tuned"


@pytest.fixture
def push(run_python: Any, tmp_path: Path) -> Any:
    """Types the command in a child, because the Hub's address is read when its library is imported."""
    def typed(*words: object, address: str, token: str = TOKEN, check: bool = True) -> Any:
        return run_python("-m", "workings", "push", *map(str, words), check=check, environment={
            "HF_ENDPOINT": address, "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "HF_TOKEN": token,
            "HF_TOKEN_PATH": str(tmp_path / "no-token"), "HF_HUB_CACHE": str(tmp_path / "cache"),
            "HF_HUB_OFFLINE": "0"})
    return typed


def test_without_yes_everything_is_shown_and_nothing_is_asked_of_the_hub(run: Path, push: Any) -> None:
    with hub() as (address, server):
        done = push(run, REPO, "--json", address=address, token="")
        assert server.asked == []
    said = json.loads(done.stdout.splitlines()[-1])
    assert not said["uploaded"]
    assert {"README.md", "model.safetensors", "record.zip", "export_info.json", "tokenizer.json"} <= set(said["files"])
    assert list(said["texts"]) == ["runs/tiny/eval/items/predictions.jsonl"]
    for name, size in said["files"].items():
        assert f"{size:,}  {name}" in done.stderr
    assert said["card"] in done.stderr
    assert not list(run.parent.glob(".push-*"))


def test_the_hub_gets_the_very_bytes_and_the_record_verifies_after_a_download(
        run: Path, push: Any, run_python: Any, tmp_path: Path) -> None:
    model = export_run(run, tmp_path / "model").directory
    with hub() as (address, server):
        said = json.loads(push(model, REPO, "--run", run, "--license", "MIT", "--private", "--yes", "--json",
                               address=address).stdout.splitlines()[-1])
        assert said["address"] == f"{address}/{REPO}/commit/{COMMIT}"
        assert server.private == [True]
        run_python("-c", f"from huggingface_hub import snapshot_download; snapshot_download({REPO!r}, "
                   f"local_dir={str(tmp_path / 'got')!r})",
                   environment={"HF_ENDPOINT": address, "HF_HUB_DISABLE_XET": "1", "HF_HUB_OFFLINE": "0",
                                "HF_HUB_CACHE": str(tmp_path / "cache")})
    got = {path.relative_to(tmp_path / "got").as_posix(): path for path in (tmp_path / "got").rglob("*")
           if path.is_file() and ".cache" not in path.parts}
    assert {name: path.stat().st_size for name, path in got.items()} == said["files"]
    for file in model.iterdir():
        assert hashlib.sha256(got[file.name].read_bytes()).digest() == hashlib.sha256(file.read_bytes()).digest()
    found = verify(got["record.zip"], expect_root=said["root"])
    assert [check.id for check in found.checks if check.verdict == "failed"] == []
    assert found.level == 2
    card = got["README.md"].read_text()
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
    refused(model, r"the run that .* was made from is not at runs/tiny", tmp_path)
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


def test_what_a_hub_refuses_is_said_with_exit_code_2(run: Path, push: Any) -> None:
    with hub() as (address, server):
        for place, token, sentence in ((address, "", "no token of the Hugging Face Hub"),
                                       (address, "hf_other", f"the Hub refuses {REPO}: "),
                                       ("http://127.0.0.1:1", TOKEN, f"the upload to {REPO} failed")):
            done = push(run, REPO, "--yes", address=place, token=token, check=False)
            assert (done.returncode, sentence in done.stderr) == (2, True), done.stderr
        assert server.files == {}


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


def test_a_run_that_began_with_gemma_is_under_its_terms_whatever_a_card_says(tuned: Path, tmp_path: Path) -> None:
    refused(tuned, "is under Gemma Terms of Use", tmp_path)
    card = tuned.parent.parent / "base" / "README.md"
    card.write_text("---\nlicense: mit\n---\n")
    refused(tuned, "names several licences: gemma, mit", tmp_path)
    card.unlink()


def test_gemmas_terms_go_with_the_model(tuned: Path, tmp_path: Path) -> None:
    made = prepare(tuned, PushRequest(repo=REPO, accept_terms=True), tmp_path)
    assert b"ai.google.dev/gemma/terms" in made.files["NOTICE"]
    assert yaml.safe_load(made.card.split("---")[1])["license"] == "gemma"
    assert "prohibited_use_policy" in made.card
