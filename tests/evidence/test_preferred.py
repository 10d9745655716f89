"""A run that learned from preference pairs: its log follows from pairs and reference, and each fake is caught."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import kept_folders
from tests.evidence import reseal
from tests.evidence.verdicts import failed
from tests.runs import killed
from workings.data.rows import index_digest
from workings.evidence.verify import verify
from workings.runs.train import train

pytestmark = pytest.mark.slow
METRICS, ROWS, REFERENCE = "train/metrics.jsonl", "data/rows.jsonl", "train/reference_log_probs.jsonl"
Lines = list[dict[str, Any]]


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def make(folder: Path) -> None:
        train(str(killed.write_pairs(folder)), folder / "tiny", ["training.learning_rate=0.01"])

    return kept_folders.copy(make, tmp_path_factory.mktemp("runs"), "preferred") / "tiny"


def change(name: str, edit: Callable[[Lines], Any]) -> Callable[[Path], None]:
    """A forgery that edits the lines of a file in place."""
    def forge(run: Path) -> None:
        def edited(rows: Lines) -> Lines:
            edit(rows)
            return rows
        reseal.edit_lines(run / name, edited)
    return forge


def log(step: int, **add: float) -> Callable[[Path], None]:
    """Numbers of a step's line, each larger by so much."""
    return change(METRICS, lambda rows: rows[step - 1].update({name: rows[step - 1][name] + x
                                                               for name, x in add.items()}))


def rows_with_their_digest(edit: Callable[[Lines], Any]) -> Callable[[Path], None]:
    """A change of the row index, its digest made again."""
    def forge(run: Path) -> None:
        change(ROWS, edit)(run)
        rows = [json.loads(line) for line in (run / ROWS).read_text().splitlines()]
        digests = json.loads((run / "data/digests.json").read_bytes()) | {
            "rows": index_digest((row["id"], row["digest"]) for row in rows)}
        reseal.edit_json(run / "data/digests.json", lambda value: digests)
    return forge


def exchange(rows: Lines) -> None:
    """The first pair's completions, the rejected one as the chosen one."""
    rows[0]["id"], rows[1]["id"] = rows[1]["id"], rows[0]["id"]
    rows[0], rows[1] = rows[1], rows[0]


def another_loss(run: Path) -> None:
    reseal.change_config(run, lambda value: {**value, "algorithm": {**value["algorithm"], "loss": "ipo"}})


def another_beta(run: Path) -> None:
    def edit(value: dict[str, Any]) -> dict[str, Any]:
        value["algorithm"]["beta"] = 0.25
        return value
    reseal.change_config(run, edit)


def more_pairs(run: Path) -> None:
    facts = json.loads((run / "run_manifest.json").read_bytes())["facts"]
    reseal.edit_manifest(run, facts=facts | {"pairs": 10 * facts["pairs"]})


def no_reference(run: Path) -> None:
    (run / REFERENCE).unlink()


FORGERIES: dict[str, tuple[Callable[[Path], None], set[str]]] = {
    "a pair the other way round": (rows_with_their_digest(exchange), {"consistency.rows"}),
    "a row without its partner": (rows_with_their_digest(lambda rows: rows.pop(1)), {"consistency.preferences"}),
    "one completion, chosen and rejected": (
        rows_with_their_digest(lambda rows: rows[1].update(digest=rows[0]["digest"])), {"consistency.preferences"}),
    "completions of two prompts": (
        rows_with_their_digest(lambda rows: rows[1].update(prompt_digest="0" * 64)), {"consistency.preferences"}),
    "the reference found one row likelier": (
        change(REFERENCE, lambda rows: rows[3].update(log_prob=rows[3]["log_prob"] + 0.5)),
        {"recompute.implied_rewards"}),
    "a row that the reference was not asked about": (
        change(REFERENCE, lambda rows: rows.pop(3)), {"consistency.preferences", "recompute.implied_rewards"}),
    "a probability above one": (
        change(REFERENCE, lambda rows: rows[3].update(log_prob=1.0)), {"consistency.preferences"}),
    "no reference": (no_reference, {"consistency.preferences"}),
    "a better accuracy": (change(METRICS, lambda rows: rows[1].update(accuracy=0.75)), {"consistency.preferences"}),
    "a larger margin": (log(3, margin=0.2), {"consistency.preferences"}),
    "a lower loss": (log(3, loss=-0.2), {"consistency.preferences"}),
    "a chosen completion that did not become less likely": (log(3, chosen_log_prob=1.0), {"recompute.implied_rewards"}),
    "a larger reward, and the margin with it": (
        log(3, chosen_reward=0.1, margin=0.1), {"recompute.implied_rewards"}),
    "rewards before anything was learned": (
        log(1, chosen_reward=0.1, margin=0.1, chosen_log_prob=0.2), {"recompute.implied_rewards"}),
    "another loss, which begins elsewhere": (another_loss, {"recompute.implied_rewards"}),
    "ten times as many pairs": (more_pairs, {"consistency.preferences"}),
    "another beta": (another_beta, {"recompute.implied_rewards"}),
}


def test_an_honest_run_verifies_without_weights(honest: Path) -> None:
    found = verify(honest)
    told = {check.id: f"{check.verdict}: {check.text}" for check in found.checks}
    assert (found.failed, found.level) == (0, 2), told
    assert told["consistency.preferences"].endswith("; 6 steps")


@pytest.mark.parametrize("name", FORGERIES)
def test_a_fake_about_preferences_is_caught(honest: Path, tmp_path: Path, name: str) -> None:
    forge, expected = FORGERIES[name]
    run = tmp_path / "tiny"
    shutil.copytree(honest, run)
    shutil.copy(honest.parent / "attempts.jsonl", tmp_path)
    forge(run)
    reseal.reseal(run)
    found = failed(run)
    assert expected <= found, found
    assert not any(check.startswith("integrity") for check in found), "the sums are right: the content is false"
