"""Episodes of several turns: an honest run is played again without weights, and every fake about them is caught.

The forger is patient: what follows from a fake (rewards, sums, advantages, log, batches) is rebuilt, so that only
the environment contradicts it.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.evidence.fakes import Fake, Table, digest_of, digest_says, gone, outcome, put, together
from tests.evidence.fakes_about_small_runs import (
    RUN,
    Change,
    first_rollout,
    following,
    prompts,
    trainer_agrees,
    with_sample,
)
from tests.evidence.records import Record, RecordOf
from tests.evidence.rewarded import EPISODES_OF, recipe
from tests.record import synthetic
from workings.engines.base import Completion
from workings.rollouts.rollout import Sample
from workings.ways.parts.rollout_batch import RolloutShape, batch_of

ENVIRONMENT = f"{RUN}/config/environment.json"
PLAYED, ASKED = "recompute.episodes", "consistency.environment"


@pytest.fixture
def record(record_of: RecordOf) -> Record:
    return record_of("episodes")


def turned(number: int, **values: Any) -> Change:
    """A turn (from 0, or from the end) with other values."""
    def change(sample: Sample) -> Sample | None:
        if not -len(sample.turns) <= number < len(sample.turns):
            return None
        turns = [*sample.turns]
        turns[number] = turns[number]._replace(**values)
        return None if turns == [*sample.turns] else replace(sample, turns=tuple(turns))
    return change


def moved_reward(sample: Sample) -> Sample | None:
    """The rewards of two turns exchanged: their sum stays."""
    first, *others = sample.turns
    if not others or first.reward == others[0].reward:
        return None
    return replace(sample, turns=(first._replace(reward=others[0].reward),
                                  others[0]._replace(reward=first.reward), *others[1:]))


def another_reply(place: int) -> Change:
    """A token of the first reply replaced by its neighbor."""
    def change(sample: Sample) -> Sample | None:
        if not sample.turns[0].observed:
            return None
        tokens = [*sample.completion.tokens]
        tokens[sample.turns[0].written + place % sample.turns[0].observed] += 1
        return replace(sample, completion=replace(sample.completion, tokens=tokens))
    return change


def learned_reply(sample: Sample) -> Sample | None:
    """The first token of a reply is recorded as the model's: it would be learned."""
    first = sample.turns[0]
    if not first.observed:
        return None
    return replace(sample, turns=(first._replace(written=first.written + 1, observed=first.observed - 1),
                                  *sample.turns[1:]))


def cut_short(sample: Sample) -> Sample | None:
    """Only the first turn is left."""
    if len(sample.turns) < 2:
        return None
    first, stop = sample.turns[0], sample.completion.tokens[sample.turns[0].written - 1]
    return replace(sample, turns=(first._replace(observed=0),), done=False, completion=Completion(
        tokens=sample.completion.tokens[:first.written - 1], finish_reason="stop", stop_token=stop,
        log_probs=sample.completion.log_probs[:first.written]))


def another_guess(sample: Sample) -> Sample | None:
    """The first turn said the right number, and now says another one. Only a replay tells two wrong ones apart."""
    if sample.turns[0].reward != 1:
        return None
    tokens = [*sample.completion.tokens]
    digits = [synthetic.tokenizer().encode(str(number))[0] for number in range(1, 5)]
    tokens[0] = digits[(digits.index(tokens[0]) + 1) % 4]
    return replace(sample, completion=replace(sample.completion, tokens=tokens))


def sure_reply(sample: Sample) -> Sample | None:
    """A reply has a log probability."""
    first = sample.turns[0]
    if not first.observed:
        return None
    log_probs = [*sample.completion.log_probs]
    log_probs[first.written] = -0.5
    return replace(sample, completion=replace(sample.completion, log_probs=log_probs))


FAKES: dict[str, Change] = {
    "a reward of the first turn": turned(0, reward=0.75), "a reward of the last turn": turned(-1, reward=0.5),
    "no reward": turned(-1, reward=0.0), "rewards moved by one turn": moved_reward,
    "a reply's first token": another_reply(0), "a reply's middle": another_reply(7), "a reply's end": another_reply(-1),
    "a reply that is learned": learned_reply, "a cut episode": cut_short,
    "another guess": another_guess, "a reply with a log probability": sure_reply,
    "another end": lambda sample: replace(sample, done=not sample.done)}
SHARES = (0.5, *(pytest.param(share, marks=pytest.mark.full) for share in (0.0, 1.0)))
"""Each fake is told of a middle, the first and the last episode that it can be about."""


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("name", FAKES)
def test_a_fake_about_an_episode_is_caught(record: Record, name: str, share: float) -> None:
    def change(sample: Sample) -> Sample | None:
        fake = FAKES[name](sample)
        return None if fake is None else replace(fake, rewards={"environment": fake.episode_reward})
    rollout = trainer_agrees(with_sample(first_rollout(record[0]), change, share))
    assert outcome(*record, following(rollout, recipe(**EPISODES_OF)), only=(PLAYED,)).problem(PLAYED) == ""


def items(change: Callable[[dict[str, Any]], Any]) -> Fake:
    """Changes every prompt's item, and the digest of all."""
    return prompts(lambda rows: [change(row["item"]) for row in rows] and None)


def environment(place: str, value: Any) -> Fake:
    """Another environment, and its digest."""
    return together(put(ENVIRONMENT, place, value), digest_says(RUN, "environment", digest_of(ENVIRONMENT)))


OF_TASKS: Table = {
    "another seed": (items(lambda item: item.update(environment_seed=1)), PLAYED),
    "another task": (items(lambda item: item["environment_row"].update(hint=1)), PLAYED),
    "a seed that is no number": (items(lambda item: item.update(environment_seed="7")), PLAYED),
    "other tasks, by their digest": (put(f"{RUN}/data/digests.json", "traces", "ab" * 32), PLAYED),
    "easier options": (environment("options", {"most": 2}), ASKED),
    "another version, not announced": (put(ENVIRONMENT, "version", "0"), ASKED),
    "no environment": (gone(ENVIRONMENT), ASKED)}


@pytest.mark.parametrize("name", OF_TASKS)
def test_a_fake_about_the_tasks_is_caught(record: Record, name: str) -> None:
    fake, expected = OF_TASKS[name]
    assert outcome(*record, fake, only=(expected,)).problem(expected) == ""


def test_an_honest_run_is_played_again(record: Record) -> None:
    files, found = record
    told = {check.id: f"{check.verdict}: {check.text}" for check in found.checks}
    assert (found.failed, found.level) == (0, 2), told
    assert told[PLAYED].startswith("passed: tiny: 16 episodes with "), told
    assert {len(sample.turns) for _, sample in first_rollout(files).all_samples} >= {1, 2, 3}, "episodes of each length"


def test_replies_are_never_learned(record: Record) -> None:
    asked, rollout = recipe(**EPISODES_OF), first_rollout(record[0])
    algorithm: Any = asked.algorithm
    batch = batch_of(rollout, 0, RolloutShape.from_recipe(asked, algorithm, devices=1, pad_id=0), algorithm)
    for row, (prompt, sample) in enumerate(rollout.trained_samples[:4]):
        mask = batch.loss_mask.reshape(4, -1)[row]
        at = len(prompt.tokens) - 1
        for turn in sample.turns:
            assert mask[at:at + turn.written].all()
            assert not mask[at + turn.written:at + turn.written + turn.observed].any()
            at += turn.written + turn.observed
        assert mask.sum() == sum(turn.written for turn in sample.turns)


def test_an_environment_from_a_file_is_not_run(record: Record) -> None:
    said = outcome(*record, together(put(f"{RUN}/config/resolved.json", "environment.name", "own.py:Game"),
                                     environment("name", "own.py:Game")))
    assert any(words.startswith(PLAYED) and "own.py:Game is code from elsewhere" in words for words in said.named)
