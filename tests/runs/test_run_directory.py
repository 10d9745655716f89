"""Where a run is written if no one says where, and where it is shown."""

import pytest
from typer.testing import CliRunner

from tests.runs.runs_helpers import write_recipe
from workings.cli.main import app
from workings.errors import RequestError
from workings.record.layout import CHECKPOINTS, DATA_DIGESTS
from workings.record.page_address import open_page
from workings.runs import create_or_resume
from workings.runs.create_or_resume import run_directory


def test_the_next_free_number_and_what_resumes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert str(run_directory("tiny")) == "runs/tiny"
    (tmp_path / "runs/tiny").mkdir(parents=True)
    (tmp_path / "runs/tiny-2.partial").mkdir()
    assert str(run_directory("tiny")) == "runs/tiny-3"
    with pytest.raises(RequestError, match="--out runs/tiny"):
        run_directory("tiny", resume=True)


def test_training_names_its_address_on_an_open_page_once_the_request_is_accepted(monkeypatch, tmp_path):
    monkeypatch.setenv("WORKINGS_CACHE", str(tmp_path / "cache"))
    address = "page       http://127.0.0.1:8765/run/a"
    words = ["train", str(write_recipe(tmp_path / "asked")), "--out", str(tmp_path / "runs/a")]
    with open_page(tmp_path / "runs", "http://127.0.0.1:8765"):
        refused = CliRunner().invoke(app, [*words, "data.traces=/nowhere"])
        trained = CliRunner().invoke(app, words)
    assert isinstance(refused.exception, RequestError)
    assert address not in refused.stderr
    lines = trained.stderr.splitlines()
    assert lines.count(address) == 1
    assert lines.index(address) < next(number for number, line in enumerate(lines) if line.startswith("device "))


def test_a_corrected_reward_begins_another_run(tmp_path):
    for name, sealed in (("a run", True), ("b.partial", False)):
        run = tmp_path / name
        run.mkdir()
        (run / DATA_DIGESTS).parent.mkdir()
        (run / DATA_DIGESTS).write_text('{"prompts": "p", "rewards": "r"}')
        (run / CHECKPOINTS / ".step_000001.tmp").mkdir(parents=True)  # the first save was killed
        with pytest.raises(RequestError, match="rewards: 'r' before, 's' now") as refused:
            create_or_resume.refuse_other_request([run], {DATA_DIGESTS: {"prompts": "p", "rewards": "s"}}, {})
        assert "export" not in str(refused.value)  # there are no weights yet
        (run / CHECKPOINTS / "step_000001").mkdir(parents=True)
        with pytest.raises(RequestError, match="another --out; or, to keep what this one has learned: ") as refused:
            create_or_resume.refuse_other_request([run], {DATA_DIGESTS: {"prompts": "p", "rewards": "s"}}, {})
        assert ("Ctrl-C" in str(refused.value)) is not sealed
        quoted = f"'{tmp_path}/a run'" if sealed else f"{tmp_path}/b"
        assert f"workings export {quoted} --out WEIGHTS, then" in str(refused.value)
        with pytest.raises(RequestError, match="the same recipe and data"):
            create_or_resume.refuse_other_request([run], {DATA_DIGESTS: {"prompts": "q", "rewards": "s"}}, {})
