"""Where a run is written if no one says where, and where it is shown."""

import pytest

from workings.errors import RequestError
from workings.record.layout import CHECKPOINTS, DATA_DIGESTS
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
