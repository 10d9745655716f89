"""The rounds of an improvement are compared again, and fakes about them are found."""

import shutil
from pathlib import Path

import pytest

from tests.runs.improving import improved
from workings.evidence.verify import verify
from workings.publish.pack import pack
from workings.record import atomic
from workings.record.canonical import read_json_object
from workings.runs.improve_result import contradictions

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that `workings improve` wrote."""
    return improved(tmp_path_factory.mktemp("packed") / "task")


def verdicts(path: Path) -> dict[str, str]:
    """The verdict of each check."""
    return {check.id: str(check.verdict) for check in verify(path, rounds=contradictions).checks}


def test_what_a_round_learned_and_was_asked_for_is_what_its_run_says(out: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(out, tmp_path / "out")
    traces, request = folder / "traces" / "round_1.jsonl", folder / "improve.json"
    learned, asked = traces.read_bytes(), read_json_object(request)
    traces.write_bytes(learned.partition(b"\n")[2])
    assert contradictions(folder) == ["traces/round_1.jsonl is not what round_1 learned from"]
    traces.write_bytes(learned)
    atomic.write_json(request, asked | {"contents of items": "5d" * 32})
    assert contradictions(folder)[0] == "improve.json: other items than those of round_0"
    atomic.write_json(request, asked | {"recipe": asked["recipe"] | {"seed": 99}})
    assert "round_1" not in contradictions(folder)[0]
    assert contradictions(folder)[0].startswith("round 1 was sampled with seed ")


def test_a_folder_is_compared_and_a_zip_asks_to_be_unpacked(out: Path, tmp_path: Path) -> None:
    assert verdicts(out)["recompute.rounds"] == "passed"
    archive = shutil.make_archive(str(tmp_path / "folder"), "zip", out)
    found = verify(Path(archive), rounds=contradictions)
    assert (found.level, found.failed) == (1, 0)
    assert any("unpack it" in check.text for check in found.checks if check.id == "recompute.rounds")


@pytest.mark.parametrize("change", [{"accuracies": [0.25, 1.0]}, {"sentence": "It learned."}])
def test_another_result_is_found(out: Path, tmp_path: Path, change: dict[str, object]) -> None:
    folder = shutil.copytree(out, tmp_path / "out")
    atomic.write_json(folder / "rounds.json", read_json_object(folder / "rounds.json") | change)
    assert [name for name, verdict in verdicts(folder).items() if verdict == "failed"] == ["recompute.rounds"]


def test_runs_and_samples_are_packed_as_they_are(out: Path, tmp_path: Path) -> None:
    pack([*sorted((out / "runs").glob("round_*")), *(out / "samples").iterdir()], tmp_path / "improved.zip")
    assert verify(tmp_path / "improved.zip").level == 2
