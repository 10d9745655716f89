"""An improvement in a pack: its rounds are compared again in the zip and unpacked, and fakes about them are found."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.evidence.packs import seal_again, unpacked
from tests.runs.improving import improved
from workings.errors import RecordError, RequestError
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


@pytest.fixture(scope="module")
def packed(out: Path) -> Path:
    """The improvement, packed."""
    archive = out.parent / "improved.zip"
    pack([out], archive)
    return archive


def verdicts(path: Path) -> dict[str, str]:
    """The verdict of each check."""
    return {check.id: str(check.verdict) for check in verify(path, rounds=contradictions).checks}


def test_rounds_are_compared_in_the_zip_and_unpacked(packed: Path, tmp_path: Path) -> None:
    folder = unpacked(packed, tmp_path / "pack")
    for path in (packed, folder):
        found = verdicts(path)
        assert found["recompute.rounds"] == "passed"
        assert "failed" not in found.values()
    rounds = read_json_object(folder / "rounds.json")
    assert rounds["runs"] == ["runs/round_0", "runs/round_1"]
    assert (folder / rounds["rounds"][1]["unit"] / "kept.jsonl").is_file()


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


def test_the_folder_in_a_zip_is_compared_as_well(out: Path, tmp_path: Path) -> None:
    archive = shutil.make_archive(str(tmp_path / "folder"), "zip", out)
    assert verdicts(Path(archive))["recompute.rounds"] == "passed"


def test_a_higher_accuracy_in_a_sealed_pack_is_found(packed: Path, tmp_path: Path) -> None:
    folder = unpacked(packed, tmp_path / "pack")
    rounds = read_json_object(folder / "rounds.json")
    atomic.write_json(folder / "rounds.json", rounds | {"accuracies": [0.25, 1.0]})
    seal_again(folder)
    again = Path(shutil.make_archive(str(tmp_path / "again"), "zip", folder))
    for path in (folder, again):
        assert [name for name, verdict in verdicts(path).items() if verdict == "failed"] == ["recompute.rounds"]


@pytest.mark.parametrize(("change", "error", "said"), [
    (lambda rounds: {}, RequestError, "not what `workings improve` writes"),
    (lambda rounds: rounds | {"sentence": "It learned."}, RecordError, "recompute.rounds: .*sentence"),
])
def test_an_improvement_that_contradicts_itself_is_not_packed(
        out: Path, tmp_path: Path, change: Callable[[dict[str, object]], dict[str, object]], error: type[Exception],
        said: str) -> None:
    folder = shutil.copytree(out, tmp_path / "out")
    atomic.write_json(folder / "rounds.json", change(read_json_object(folder / "rounds.json")))
    with pytest.raises(error, match=said):
        pack([folder], tmp_path / "a.zip")
    assert not (tmp_path / "a.zip").exists()


def test_two_improvements_do_not_fit(out: Path, tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="a second improvement"):
        pack([out, out], tmp_path / "a.zip")
