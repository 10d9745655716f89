"""What no engine computes is shared: rewards and scores of several processes are those of one."""

import json
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from tests.distributed.conftest import in_thread
from tests.distributed.two_scoring_processes import SETTINGS, Adding, evaluated, shared_model
from tests.engines.tiny import random_batch, tiny_shape
from workings.config.rewards import RewardConfig
from workings.distributed.process_group import ProcessGroup
from workings.distributed.rpc import PeerFailed
from workings.errors import RequestError
from workings.scoring.items import Item
from workings.scoring.rewards import CompletionToReward, RewardSettings
from workings.testing.fakes import adding_model
from workings.ways.shared_scoring import rewarder, shares


def test_shipped_rewards_are_shared_and_a_persons_function_sees_all_completions(pair, tmp_path) -> None:
    first, second, _, made = pair
    (tmp_path / "my.py").write_text("def how_many(prompts, completions, **columns):\n"
                                    "    return [float(len(completions)) for _ in completions]\n")
    rewards = TypeAdapter(tuple[RewardConfig, ...]).validate_python(
        ({"scorer": "my.py:how_many"}, {"scorer": "answer"}, {"scorer": "length"}))
    settings = RewardSettings(rewards=rewards, form="any", max_new_tokens=8, base=tmp_path)
    item = Item(id="a", prompt="6 + 1", expected_answer="7")
    samples = [CompletionToReward(item=item, text=f"The answer is {number}.", tokens=[0] * number, truncated=False)
               for number in (7, 1, 7)]
    numbers = []
    with shares(settings, None) as tasks:
        noted = {name: lambda values, inner=inner: numbers.append(len(values)) or inner(values)
                 for name, inner in tasks.items()}
        thread, _ = in_thread(second, made(), tasks=noted)
        with first:
            first.coordinate(made())
            with rewarder(settings, first) as gives:
                found = gives.score(samples)
            first.outcome = {}
        thread.join()
    assert numbers == [1]
    assert found == [{"my.py:how_many": 3.0, "answer": float(number == 7), "length": -number / 8}
                     for number in (7, 1, 7)]
    assert list(found[0]) == list(settings.names)


def files(unit: Path) -> dict[str, bytes]:
    """All of an evaluation."""
    return {path.name: path.read_bytes() for path in unit.iterdir()}


def ids(*numbers: int) -> list[str]:
    return [f"i{number}" for number in numbers]


@pytest.mark.children
def test_two_processes_score_their_shares_and_record_what_one_does(run_ranks, tmp_path) -> None:
    line = evaluated(ProcessGroup(None), adding_model(), tmp_path / "one")
    assert line["held_out_right"] == "01011", "neither all nor none, so that an order shows"
    said = json.loads(run_ranks("tests.distributed.two_scoring_processes", tmp_path).splitlines()[-1])
    assert said["line"] == line
    assert files(tmp_path / "two") == files(tmp_path / "one")
    assert said["asked"] == [ids(0, 1), ids(4, 5), ids(8, 9), ids(0, 1), ids(4)]
    assert json.loads((tmp_path / "theirs.json").read_text()) == [ids(2, 3), ids(6, 7), ids(10), ids(2, 3), []]


def test_a_share_is_computed_beside_the_calls_that_follow(pair) -> None:
    first, second, _, made = pair
    evaluating, other = threading.Event(), made()
    other.evaluate = lambda state, batch: evaluating.set()
    thread, _ = in_thread(second, other, tasks={"waits": lambda values: [evaluating.wait() for _ in values]})
    with first:
        engine = first.coordinate(made())
        own, gather = first.share_out("waits", ["a", "b", "c"])
        engine.evaluate(engine.init(1), random_batch(tiny_shape()))
        assert gather([value.upper() for value in own]) == ["A", "B", True]
        first.outcome = {}
    thread.join()


def test_a_share_that_cannot_be_scored_ends_both_processes_with_its_words(pair, tmp_path) -> None:
    first, second, _, _ = pair
    gone = replace(SETTINGS, scorer=f"{tmp_path / 'gone.py'}:score")
    with shares(None, gone) as tasks:
        thread, found = in_thread(second, Adding(), tasks=tasks)
        with pytest.raises(PeerFailed, match=r"process 1: scorer: .*gone\.py:score") as caught, first:
            evaluated(first, shared_model(first), tmp_path / "two")
        thread.join()
    assert isinstance(found["error"], RequestError)
    assert caught.value.exit_code == found["error"].exit_code == 2
    assert not (tmp_path / "two").exists()
