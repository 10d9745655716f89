"""The commands that a run gives for training it again find its recipe and its files, wherever they are typed."""

import shlex
from pathlib import Path

import pytest

import workings
from workings.config.load import load_recipe, shipped_recipes
from workings.data.generators.addition import make
from workings.data.traces import write_traces
from workings.evidence.readmes import packed_command
from workings.inputs.datasets import find_data
from workings.record.canonical import read_json
from workings.record.layout import OVERRIDES, README
from workings.record.reader import RunRecord
from workings.reports.gather import train_again
from workings.runs.train import train


def _found(command: str) -> tuple[str, dict[str, str]]:
    """What a command would train: where its recipe came from, and the digests of the data."""
    recipe, _, _, *overrides = shlex.split(command)[2:]
    loaded = load_recipe(recipe, overrides)
    return loaded.origin, find_data(loaded).digests


@pytest.mark.parametrize("asked", ["a shipped recipe", "a file", "keys"])
def test_typed_in_the_run_in_the_working_folder_and_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                              asked: str) -> None:
    for folder in ("data", "recipes", "elsewhere"):
        (tmp_path / folder).mkdir()
    write_traces(tmp_path / "data" / "sums.jsonl", make(20, 1, 3)[0])
    (tmp_path / "recipes" / "mine.yaml").write_text(shipped_recipes()["smoke-tiny"])
    monkeypatch.chdir(tmp_path)
    words = ["data.traces=data/sums.jsonl", "training.steps=1", "engine=unigram"]
    recipe: object = {"a shipped recipe": "smoke-tiny", "a file": "recipes/mine.yaml"}.get(asked)
    if recipe is None:
        recipe = load_recipe("smoke-tiny", words).recipe.model_dump(mode="json", exclude_unset=True)
        words = []
    loaded = load_recipe(recipe, words)  # type: ignore[arg-type]
    digests = find_data(loaded).digests
    run = train(loaded, Path("runs/again")).run
    origin = {"a shipped recipe": "shipped:smoke-tiny", "a file": "recipes/mine.yaml"}.get(
        asked, "runs/again/config/recipe.yaml")
    assert _found(train_again(run)) == (origin, digests)
    # A pack has the recipes next to the runs, and its reader puts the data where the commands name them.
    packed = packed_command("runs/again", RunRecord.open(run).manifest, read_json(run / OVERRIDES))
    assert "data.traces=data/again/sums.jsonl" in shlex.split(packed)
    [typed] = [line for line in (run / README).read_text().splitlines() if line.startswith("    workings train")]
    monkeypatch.chdir(run)
    assert _found(typed)[1] == digests
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert _found(train_again(Path("../runs/again")))[1] == digests


def test_a_file_that_is_gone_when_the_run_ends_is_named_as_the_record_names_it(tmp_path: Path,
                                                                              monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    traces = tmp_path / "sums.jsonl"
    write_traces(traces, make(20, 1, 3)[0])
    words = {"data.traces": "sums.jsonl", "evaluation": {"traces": "none", "items": "none"}, "training.steps": 1}
    run = workings.train("smoke-tiny", "runs/gone", words, callbacks=[lambda line: traces.unlink()]).path
    assert "data.traces=../../sums.jsonl" in (run / README).read_text()
    assert workings.verify(run).failed == 0
