"""Completions that another program sampled: each rollout has the adapters of its update, or those of one before."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.evidence import reseal
from tests.evidence.rewarded import Elsewhere, Later, rewarded_run
from workings.evidence.verify import verify

ONE_EACH = {"name": "dapo", "group": 4, "max_new_tokens": 48, "max_resamples": 3}


def run(folder: Path, *, ahead: bool, updates: int = 1) -> Path:
    return rewarded_run(folder / "tiny", Later if ahead else Elsewhere, sampler={"name": "vllm", "ahead": ahead},
                        algorithm=ONE_EACH | {"updates": updates})


def tags(folder: Path) -> list[tuple[int, int, int]]:
    """Step, adapters and how far they are behind, of each rollout."""
    read = [json.loads(path.read_bytes()) for path in sorted((folder / "train/rollouts").iterdir())]
    return [(value["step"], int(value["sampler"]["adapter"]), int(value["sampler"]["behind"])) for value in read]


def rollouts(folder: Path) -> tuple[str, str]:
    found = next(check for check in verify(folder).checks if check.id == "consistency.rollouts")
    return found.verdict, found.text


def test_each_rollout_has_the_adapters_of_its_update(tmp_path: Path) -> None:
    made = run(tmp_path, ahead=False)
    assert tags(made) == [(1, 1, 0), (2, 2, 0), (3, 3, 0), (4, 4, 0)]
    assert verify(made).level == 2


def test_a_rollout_that_is_sampled_during_the_update_before_has_its_adapters(tmp_path: Path) -> None:
    made = run(tmp_path, ahead=True)
    assert tags(made) == [(1, 1, 0), (2, 1, 1), (3, 2, 1), (4, 3, 1)]
    assert verify(made).level == 2


def test_with_several_updates_it_is_sampled_during_the_last_of_them(tmp_path: Path) -> None:
    made = run(tmp_path, ahead=True, updates=2)
    assert tags(made) == [(1, 1, 0), (3, 2, 1)]
    assert verify(made).level == 2


@pytest.mark.parametrize(("ahead", "step", "tag", "told"), [
    (False, 3, {"behind": "1"}, "older adapters, which the recipe does not allow"),
    (True, 1, {"behind": "1"}, "older adapters, which the recipe does not allow"),
    (True, 3, {"behind": "2"}, "no name, version and adapters of its sampler"),
    (False, 3, {"adapter": f"{2:064d}"}, "sampled with the adapters before update 2"),
    (True, 4, {"adapter": f"{2:064d}"}, "sampled with the adapters before update 2"),
])
def test_another_tag_is_found(tmp_path: Path, ahead: bool, step: int, tag: dict[str, str], told: str) -> None:
    made = run(tmp_path, ahead=ahead)

    def change(value: dict[str, Any]) -> dict[str, Any]:
        return value | {"sampler": value["sampler"] | tag}

    reseal.edit_json(made / f"train/rollouts/step_{step:06d}.json", change)
    reseal.reseal(made)
    verdict, text = rollouts(made)
    assert verdict == "failed"
    assert told in text
