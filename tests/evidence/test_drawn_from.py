"""A run that was trained on samples of another one: what it learned is what that one drew and what was kept."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.evidence import reseal
from tests.evidence.verdicts import said
from tests.runs.improving import improved
from workings.errors import RequestError
from workings.evidence.verify import verify
from workings.publish.pack import pack
from workings.record.digest import file_digest
from workings.record.reader import RunRecord
from workings.runs.replay import ReplayRequest, replay_run
from workings.samples.unit import SampleUnit

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return improved(tmp_path_factory.mktemp("improved"))


@pytest.fixture
def out(honest: Path, tmp_path: Path) -> Path:
    """A copy that may be changed, with what a replay needs next to it."""
    return shutil.copytree(honest.parent, tmp_path / "all") / "out"


def found(path: Path) -> tuple[str, str]:
    """Verdict and text of the check."""
    return said(path)["consistency.drawn_from"]


def test_a_chain_of_four_in_one_pack(honest, tmp_path):
    start, drawn, run = honest / "runs" / "round_0", honest / "samples" / "for_round_1", honest / "runs" / "round_1"
    count = RunRecord.open(run).manifest.facts["drawn_from"][RunRecord.open(start).root]
    assert count > 0
    packed = pack([start, drawn, run], tmp_path / "chain.zip")
    assert any(name.startswith("data/") and name.endswith(".jsonl") for name, _ in packed.entries)
    verdict, text = found(tmp_path / "chain.zip")
    assert verdict == "passed"
    assert f"runs/round_1: {count} of {count + 12} were sampled and kept by {RunRecord.open(start).root[:16]}" in text

    # Without the samples no one can say that they were kept.
    pack([start, run], tmp_path / "two.zip")
    assert found(tmp_path / "two.zip")[0] == "not_checked"


def test_traces_that_are_gone_cannot_be_packed(out, tmp_path):
    shutil.rmtree(out / "traces")
    assert found(out) == ("not_checked", "runs/round_1: the file of traces that it learned from is not here")
    with pytest.raises(Exception, match="the traces that it learned from are not where its recipe names them"):
        pack([out / "runs" / "round_1"], tmp_path / "one.zip")


def changed_traces(out: Path, change: Callable[[list[dict]], list[dict]]) -> None:
    """Change what the last round learned from, and its record with it."""
    path, run = out / "traces" / "round_1.jsonl", out / "runs" / "round_1"
    rows = change([json.loads(line) for line in path.read_text().splitlines()])
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    digest = file_digest(path)
    reseal.edit_json(run / "data" / "digests.json", lambda digests: digests | {"traces": digest})
    reseal.reseal(run)


@pytest.mark.parametrize("change", [
    lambda rows: [*rows[:-1], rows[-1] | {"answer": "8"}],
    lambda rows: [*rows, rows[-1] | {"id": "q109/77", "sample": 77}],
    lambda rows: [row | ({"drawn_from": "0" * 64} if "drawn_from" in row else {}) for row in rows],
    lambda rows: [{key: value for key, value in row.items() if key != "drawn_from"} for row in rows],
], ids=["another answer", "a wrong sample", "another model", "no model"])
def test_a_fake_about_what_was_learned(out, change):
    changed_traces(out, change)
    assert found(out)[0] == "failed"


def test_a_fake_about_how_many(out):
    run = out / "runs" / "round_1"
    facts = RunRecord.open(run).manifest.facts
    # One; nor can it leave out that there were any.
    for told in ({"drawn_from": {RunRecord.open(out / "runs" / "round_0").root: 1}}, {}):
        reseal.edit_manifest(run, facts={key: facts[key] for key in facts if key != "drawn_from"} | told)
        reseal.reseal(run)
        assert found(out)[0] == "failed"


def test_samples_drawn_again(out):
    run, drawn = out / "runs" / "round_0", out / "samples" / "for_round_1"
    found = replay_run(run, ReplayRequest(steps=1, predictions=3, samples=(drawn,)))["predictions"]
    # Items of the evaluation, and questions with four samples each, in whole batches of 16 prompts.
    assert found["units"] == ["eval/items", f"samples/{SampleUnit.open(drawn).root}"]
    assert found["same"] == found["asked"] >= 3 + 3 * 4

    with pytest.raises(RequestError, match=r"were not sampled from .*round_1"):
        replay_run(out / "runs" / "round_1", ReplayRequest(steps=1, samples=(drawn,)))

    # A text that no one drew, scored and kept as it should be: no file is wrong, and still it is not sampled again.
    def another_text(rows: list[dict]) -> list[dict]:
        return [row | ({"completion": row["completion"].replace("Seven", "Eight")} if row["sample"] == 0 else {})
                for row in rows]
    reseal.edit_lines(drawn / "predictions.jsonl", another_text)
    reseal.reseal(drawn)
    found = replay_run(run, ReplayRequest(steps=1, predictions=3, samples=(drawn,)))["predictions"]
    assert found["same"] < found["asked"]


def test_level_3_draws_the_samples_again_that_stand_beside_their_run(out):
    drawn, asked = out / "samples" / "for_round_1", {}

    def take_again(path: Path, samples: tuple[Path, ...]) -> dict:
        asked[path.name] = samples
        if not samples:
            raise RequestError("a run of no interest here", "the other one")
        return replay_run(path, ReplayRequest(steps=1, predictions=3, samples=samples))

    checks = {one.id: one for one in verify(out, level=3, replay=take_again).checks}
    assert asked == {"round_0": (drawn,), "round_1": ()}
    assert not [one for one in checks.values() if one.verdict == "failed"]
    # Without its run there is nothing to draw them with.
    alone = verify(drawn, level=3, replay=take_again)
    last = next(one for one in alone.checks if one.id == "replay.predictions")
    assert (alone.level, last.verdict) == (2, "not_checked")
    assert "the run of these samples is not here" in last.text
