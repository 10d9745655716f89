"""Completions that another program sampled: each rollout has the adapters of its update, or those of one before."""

import json
from pathlib import Path

from tests.evidence.records import ONE_EACH, Files, RecordOf
from tests.evidence.rewarded import Later, rewarded_run
from tests.evidence.walk import files_of
from workings.evidence.verify import verify


def tags(files: Files) -> list[tuple[int, int, int]]:
    """Step, adapters and how far they are behind, of each rollout."""
    read = [json.loads(data) for name, data in sorted(files.items()) if "/rollouts/" in name]
    return [(value["step"], int(value["sampler"]["adapter"]), int(value["sampler"]["behind"])) for value in read]


def test_each_rollout_has_the_adapters_of_its_update_or_of_the_one_during_which_it_is_sampled(
        record_of: RecordOf) -> None:
    for kind, expected in (("sampled_elsewhere", [(1, 1, 0), (2, 2, 0), (3, 3, 0), (4, 4, 0)]),
                           ("sampled_ahead", [(1, 1, 0), (2, 1, 1), (3, 2, 1), (4, 3, 1)])):
        files, found = record_of(kind)
        assert (tags(files), found.level) == (expected, 2)


def test_with_several_updates_it_is_sampled_during_the_last_of_them(tmp_path: Path) -> None:
    made = rewarded_run(tmp_path / "tiny", Later, sampler={"name": "vllm", "ahead": True},
                        algorithm=ONE_EACH | {"updates": 2})
    assert tags(files_of(tmp_path)) == [(1, 1, 0), (3, 2, 1)]
    assert verify(made).level == 2
