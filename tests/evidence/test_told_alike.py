"""Fakes that follow from a record itself, about some of its fields; `proof/fakes.py` tells those about all."""

import random
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from tests.evidence import told_alike, walk
from tests.evidence.fakes import edit, put, rows
from tests.evidence.fakes_elsewhere import recipe_everywhere
from tests.evidence.trained import score_here, trained_files
from workings.cli.verify import verification_text as verify_text

SOME = 6
"""Fakes of each kind that are told here."""
NOT_THERE = "(it is not there, and this version always writes it)"


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, bytes]]:
    with pytest.MonkeyPatch.context() as patch:
        score_here(patch)
        yield trained_files(tmp_path_factory.mktemp("trained"))


@pytest.fixture(scope="module")
def honest(record: dict[str, bytes]) -> walk.Verification:
    return walk.verified(record)


@pytest.mark.slow
@pytest.mark.parametrize("kind", told_alike.KINDS)
def test_found_or_named(record: dict[str, bytes], honest: walk.Verification, kind: str) -> None:
    told = dict(told_alike.words_for_fakes(record, kind))
    assert len(told) > 140
    drawn = random.Random(17).sample(sorted(told), len(told))
    chosen = list(islice((name for name in drawn if told_alike.changes(record, told[name])), SOME))
    assert len(chosen) == SOME
    assert [name for name in chosen if not any(told_alike.outcome(record, honest, told[name]))] == []


def found_by(record: dict[str, bytes], honest: walk.Verification, fake: told_alike.Fake) -> list[str]:
    return told_alike.outcome(record, honest, fake)[0]


@pytest.mark.parametrize(("fake", "check"), [
    (edit("a/checkpoints/step_000012/COMMIT.json", lambda found: found | {"note": "the best"}),
     "integrity.checkpoints"),
    (put("a/eval/items/eval_summary.json", "scorecard.overall.errors", False), "recompute.scorecard"),
    (rows("a/eval/items/predictions.jsonl", lambda found: [each | {"sample": False} for each in found]),
     "consistency.answers"),
    (rows("a/train/metrics.jsonl", lambda found: [each | {"grad_norm": "1.0"} for each in found]), "form.schema"),
    (rows("a/train/metrics.jsonl", lambda found: [each | {"seconds": True} for each in found]), "form.schema"),
    (lambda files: files.update({"a/train/metrics.jsonl": files["a/train/metrics.jsonl"].replace(b"\n", b"\r\n")}),
     "form.json"),
    (recipe_everywhere("a", "evaluation.items", "none"), "consistency.recipe"),
    (recipe_everywhere("a", "mesh.tp", 2), "consistency.machine"),
])
def test_each_is_found_by_its_check(record: dict[str, bytes], honest: walk.Verification, fake: told_alike.Fake,
                                    check: str) -> None:
    assert check in found_by(record, honest, fake)


@pytest.mark.parametrize(("number", "found"), [("2.0.0+built.here", False), ("2.0.1+built.here", True)])
def test_an_evaluation_whose_library_names_its_build(record: dict[str, bytes], honest: walk.Verification, number: str,
                                                     *, found: bool) -> None:
    def fake(files: dict[str, bytes]) -> None:
        put("a/env/env_info.json", "packages.numpy", "2.0.0")(files)
        put("a/eval/items/eval_config.json", "engine.versions.numpy", number)(files)
    assert ("consistency.announced" in found_by(record, honest, fake)) is found


def test_a_number_format_that_no_engine_of_this_project_names() -> None:
    files = walk.files_of(Path("examples/runs/quickstart/runs.zip"))
    put("runs/with-steps/run_manifest.json", "actual_dtypes.everything", "float64")(files)
    assert "consistency.tensors" in {one.id for one in walk.verified(walk.resealed(files), level=1).checks
                                   if one.verdict == "failed"}


@pytest.mark.parametrize(("field", "file"), [
    ("positions", "a/train/metrics.jsonl"), ("attempt", "a/train/events.jsonl")])
def test_a_key_that_is_gone_from_every_line_is_named(record: dict[str, bytes], field: str, file: str) -> None:
    changed = dict(record)
    rows(file, lambda found: [{key: value for key, value in each.items() if key != field} for each in found])(changed)
    found = walk.verified(walk.resealed(changed))
    assert f"{file}: {field} {NOT_THERE}" in {one.text for one in found.unchecked_fields}


def test_what_is_announced_is_named_only_where_no_evaluation_answers_it(record: dict[str, bytes],
                                                                       honest: walk.Verification) -> None:
    assert not any(one.file == "train/events.jsonl" and one.field == "decoding.seed" for one in honest.unchecked_fields)
    without = {name: data for name, data in record.items() if "/eval/" not in name}
    found = walk.verified(walk.resealed(without))
    assert any(one.file == "train/events.jsonl" and one.field == "decoding.seed" for one in found.unchecked_fields)


def test_an_announced_evaluation_that_is_gone_keeps_level_two_from_being_reached(record: dict[str, bytes]) -> None:
    # Another evaluation of the same run stays, whose scores can be computed again.
    found = walk.verified(walk.resealed({name.replace("a/eval/items/", "a/eval/later/"): data
                                         for name, data in record.items()}))
    assert (found.failed, found.level, found.outcome) == (0, 1, "not reached")
    said = next(line for line in verify_text(found, verbose=False).splitlines() if "recompute.items" in line)
    assert said.startswith("not checked  ")
    assert said.endswith(
        "an evaluation of 10 items was announced before the first step and is not here: removed, or not made yet")


def test_nothing_is_missing_where_the_evaluation_is_here_or_the_run_did_not_end(record: dict[str, bytes],
                                                                               honest: walk.Verification) -> None:
    stopped = {name: data for name, data in record.items() if "/eval/" not in name}
    put("a/run_manifest.json", "status", "interrupted")(stopped)
    for found in (honest, walk.verified(walk.resealed(stopped))):
        assert not any("announced before the first step and is not here" in one.text for one in found.checks)
