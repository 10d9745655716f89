"""A unit of samples that someone made look better, and sealed again: each fake is caught."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.evaluation.making import items
from tests.evidence import reseal
from tests.evidence.forgeries import Forgery, forge, forgery, put
from tests.evidence.verdicts import failed
from tests.samples.making import drawing_model, samples_unit
from workings.data.traces import trace_from_json, traces_bytes
from workings.evaluation.run import evaluate
from workings.evaluation.settings import EvaluationSettings
from workings.samples.pairs import PairRule
from workings.samples.selection import Selection

Lines = list[dict[str, Any]]
KEPT, PAIRS, PREDICTIONS = "kept.jsonl", "pairs.jsonl", "predictions.jsonl"
SELECTION, CONFIG = "selection.json", "eval_config.json"


def edit_kept(unit: Path, change: Callable[[Lines], Lines], name: str = KEPT) -> None:
    """Change lines of `kept.jsonl` or `pairs.jsonl` and write them in their own form."""
    rows = change([json.loads(line) for line in (unit / name).read_bytes().splitlines()])
    (unit / name).write_bytes(b"".join(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows))


def kept(pointer: str, value: Any, name: str = KEPT) -> Forgery:
    """A change of `kept.jsonl` or `pairs.jsonl`."""
    return lambda unit: edit_kept(unit, lambda rows: put(rows, pointer, value), name)


def predictions(unit: Path) -> Lines:
    return [json.loads(line) for line in (unit / PREDICTIONS).read_bytes().splitlines()]


def keep_a_wrong_sample(unit: Path) -> None:
    """In place of a kept one of its prompt, so that every count stays as it is."""
    drawn = predictions(unit)
    kept = {json.loads(line)["id"].partition("/")[0] for line in (unit / "kept.jsonl").read_bytes().splitlines()}
    wrong = next(row for row in drawn if row["score"] == 0 and row["id"] in kept)

    def change(rows: Lines) -> Lines:
        row = next(row for row in rows if row["id"].startswith(f"{wrong['id']}/"))
        row |= {"id": f"{wrong['id']}/{wrong['sample']}", "answer": wrong["extracted"], "sample": wrong["sample"],
                "seed": wrong["seed"], "score": 1}
        return rows
    edit_kept(unit, change)


def one_row_more_and_its_count(unit: Path) -> None:
    """A right sample in the form that the rule left out, because one of its prompt was enough."""
    from workings.samples.candidates import SampleOrigin
    from workings.samples.selection import select
    rows = predictions(unit)
    by_prompt = [[row for row in rows if row["id"] == f"i{number}"] for number in range(8)]
    config = json.loads((unit / "eval_config.json").read_bytes())
    found = select(by_prompt, Selection(most_per_prompt=2), SampleOrigin.from_config(config))
    (unit / "kept.jsonl").write_bytes(traces_bytes(found.traces))
    forge(unit, (SELECTION, "/counts", json.loads(json.dumps(found.counts.to_json()))))


def leave_out_a_bad_draw(unit: Path) -> None:
    from workings.evaluation.summary import EvaluationSummary
    from workings.samples.unit import write_files
    wrong = next(row for row in predictions(unit) if row["score"] == 0)
    reseal.edit_lines(unit / "predictions.jsonl", lambda rows: [row for row in rows if row != wrong])
    again = EvaluationSummary(unit / "predictions.jsonl", "mean")
    reseal.edit_json(unit / "eval_summary.json", lambda value: again.to_json(value["problems"]))
    (unit / "samples.md").write_text(again.samples_text())
    write_files(unit, Selection(most_per_prompt=1), PairRule(rule="right-wrong"))


def no_selection(unit: Path) -> None:
    (unit / SELECTION).unlink()


another_seed = forgery("another seed", (PREDICTIONS, "/0/seed", lambda row: row["seed"] ^ 1))
no_seeds = forgery("no seeds", (PREDICTIONS, "", lambda rows: [
    {key: value for key, value in row.items() if key != "seed"} for row in rows]))
FORGERIES: dict[Forgery, set[str]] = {
    keep_a_wrong_sample: {"recompute.selection"},
    one_row_more_and_its_count: {"recompute.selection"}, leave_out_a_bad_draw: {"consistency.answers"},
    another_seed: {"consistency.answers"}, no_seeds: {"consistency.answers"},
    no_selection: {"form.schema", "recompute.selection"},
    **{forgery(name, *changes): {"recompute.selection"} for name, *changes in (
        ("one row more", kept("", lambda rows: [*rows, rows[0] | {"id": rows[0]["id"] + "1"}])),
        ("another order", kept("", lambda rows: rows[::-1])),
        ("a better text", kept("/0/steps", ["it is obvious"])),
        ("another model", kept("/*/source", "samples of a better one 0123456789abcdef")),
        ("fewer never solved", (SELECTION, "/counts/never", lambda counts: counts["never"] + 1),
         (SELECTION, "/counts/sometimes", lambda counts: counts["sometimes"] - 1)),
        ("another reason", (SELECTION, "/counts/left_out/wrong", lambda out: out["wrong"] - 1)),
        ("reasons exchanged", (SELECTION, "/counts/left_out", lambda counts: counts["left_out"] | {
            "wrong": counts["left_out"]["another form"], "another form": counts["left_out"]["wrong"]})),
        ("a looser rule", (SELECTION, "/selection/most_per_prompt", 0)),
        ("a pair turned around", kept("", lambda rows: [
            rows[0] | {"chosen": rows[0]["rejected"], "rejected": rows[0]["chosen"]}, *rows[1:]], PAIRS)),
        ("one pair less", kept("", lambda rows: rows[1:], PAIRS)),
        ("no pairs", (SELECTION, "/pairs", {"absent": "not asked for"})),
        ("completions from elsewhere", (CONFIG, "/source", {"kind": "predictions"})))},
    forgery("another seed of all", (CONFIG, "/decoding/seed", 99)): {"consistency.answers"},
}
"""What a forger changes, and the checks that have to fail."""


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return samples_unit(tmp_path_factory.mktemp("samples") / "unit")


def test_sealed_again_without_a_fake_it_verifies(honest: Path, tmp_path: Path) -> None:
    shutil.copytree(honest, tmp_path / "unit")
    reseal.reseal(tmp_path / "unit")
    assert failed(tmp_path / "unit") == set()
    # The forger's own way of writing lines is not what is caught.
    edit_kept(tmp_path / "unit", lambda rows: rows)
    assert (tmp_path / "unit" / "kept.jsonl").read_bytes() == (honest / "kept.jsonl").read_bytes()
    assert all(trace_from_json(json.loads(line)) for line in (honest / "kept.jsonl").read_bytes().splitlines())


@pytest.mark.parametrize("fake", FORGERIES, ids=lambda fake: fake.__name__)
def test_caught(honest: Path, tmp_path: Path, fake: Forgery) -> None:
    shutil.copytree(honest, tmp_path / "unit")
    fake(tmp_path / "unit")
    reseal.reseal(tmp_path / "unit")
    assert FORGERIES[fake] <= failed(tmp_path / "unit")


def test_samples_do_not_stand_among_the_evaluations_of_a_run(run: Path, honest: Path) -> None:
    """There they could be of questions that the run was trained on, and no one would look."""
    shutil.copytree(honest, run / "eval" / "drawn")
    assert "recompute.selection" in failed(run)


def test_hostile_values_get_a_verdict(honest: Path, tmp_path: Path) -> None:
    for number, change in enumerate((
            lambda value: value | {"counts": []}, lambda value: value | {"selection": {"keep": ["x"]}},
            lambda value: value | {"selection": value["selection"] | {"most_per_prompt": "3"}},
            lambda value: value | {"pairs": {"rule": 4}}, lambda value: {"schema": "selection/1"},
            lambda value: value | {"counts": value["counts"] | {"left_out": {"wrong": "many"}}})):
        unit = tmp_path / str(number)
        shutil.copytree(honest, unit)
        reseal.edit_json(unit / "selection.json", change)
        reseal.reseal(unit)
        assert failed(unit) & {"recompute.selection"}, number


def test_an_evaluation_names_its_seeds(tmp_path: Path) -> None:
    unit = tmp_path / "eval"
    evaluate(drawing_model(), items(4), unit, made_from=None, facts={"id": "adder"},
             settings=EvaluationSettings(temperature=1.0, samples=2, form="tags"))
    assert failed(unit) == set()
    for number, fake in enumerate((no_seeds, another_seed)):
        copy = tmp_path / str(number)
        shutil.copytree(unit, copy)
        fake(copy)
        reseal.reseal(copy)
        assert failed(copy) == {"consistency.answers"}
