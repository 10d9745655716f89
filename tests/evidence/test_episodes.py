"""Episodes of several turns: an honest run is played again without weights, and every fake about them is caught.

The forger is patient: what follows from a fake (rewards, sums, advantages, log, batches) is made again, so that only
the environment contradicts it.
"""

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.evidence import reseal
from tests.evidence.rewarded import Texts, recipe, rewarded_run
from tests.evidence.verdicts import failed
from tests.record import synthetic
from workings.engines.base import Completion
from workings.evidence.verify import verify
from workings.record.digest import json_digest
from workings.rollouts import arithmetic, rollout_json
from workings.rollouts.prompts import Prompt, read_recorded_prompts
from workings.rollouts.rollout import EpisodeTurn, Rollout, RolloutShape, Sample, batch_of, digest_of

FIRST = "train/rollouts/step_000001.json"
CHANGES: dict[str, Any] = {
    "data": {"traces": "environment", "template": "gemma", "reasoning": "tags", "max_length": 160, "buckets": [160]},
    "algorithm": {"name": "grpo", "group": 4, "max_new_tokens": 4, "updates": 2},
    "rewards": [{"scorer": "environment"}],
    "environment": {"name": "guess-number", "turns": 3, "tasks": 6, "options": {"most": 4}}}


class Guesses(Texts):
    """Guesses by its seed, and sometimes writes no number or does not end."""

    def sample(self, state: Any, prompts: Sequence[Sequence[int]], *, max_new_tokens: int, stop_ids: Sequence[int],
               temperature: float, seeds: Sequence[int]) -> list[Completion]:
        """One completion a seed."""
        del state, temperature
        found = []
        for seed in seeds:
            text = "what is it then" if seed % 9 == 8 else str(1 + seed % 5)
            tokens = synthetic.tokenizer().encode(text)[:max_new_tokens]
            cut = len(tokens) == max_new_tokens
            found.append(Completion(
                tokens=tokens, finish_reason="length" if cut else "stop", stop_token=None if cut else stop_ids[0],
                log_probs=[-0.25 - (seed + place) % 8 / 16 for place in range(len(tokens) + (not cut))]))
        return found


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return rewarded_run(tmp_path_factory.mktemp("runs") / "tiny", Guesses, **CHANGES)


def read(run: Path) -> Rollout:
    """The first rollout of a run."""
    rows = [json.loads(line) for line in (run / "data/prompts.jsonl").read_text().splitlines()]
    return rollout_json.from_json(json.loads((run / FIRST).read_bytes()),
                                  {row["id"]: Prompt.from_json(row) for row in rows})


def follow(run: Path, rollout: Rollout) -> None:
    """Writes a changed rollout and makes everything again that follows from it."""
    asked = recipe(**CHANGES)
    algorithm: Any = asked.algorithm
    groups = []
    for group in rollout.groups:
        samples = [replace(sample, rewards={"environment": sample.episode_reward}, reward=sample.episode_reward)
                   for sample in group.samples]
        advantages = algorithm.advantages([sample.reward for sample in samples])
        groups.append(replace(group, samples=tuple(replace(sample, advantage=advantage) for sample, advantage in
                                                   zip(samples, advantages, strict=True))))
    log_probs = tuple(np.asarray(sample.completion.log_probs, np.float32) for group in groups
                      for sample in group.samples)
    rollout = replace(rollout, groups=tuple(groups), trainer_log_probs=log_probs)
    reseal.edit_json(run / FIRST, lambda value: rollout_json.to_json(rollout))
    shape = RolloutShape.from_recipe(asked, algorithm, fsdp=1, pad_id=0)

    def log(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        rows[0] |= arithmetic.rollout_metrics(rollout, ["environment"]) | arithmetic.mismatch(rollout)
        for part in (0, 1):
            batch = batch_of(rollout, part, shape, algorithm)
            rows[part] |= {"batch_digest": digest_of(batch), "tokens": batch.real_tokens,
                           "supervised_tokens": batch.supervised_tokens}
        return rows
    reseal.edit_lines(run / "train/metrics.jsonl", log)


Change = Callable[[Sample], Sample | None]
"""Another sample; None where this fake cannot be told of it."""


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
    """The first token of a reply is said to be the model's: it would be learned."""
    first = sample.turns[0]
    if not first.observed:
        return None
    return replace(sample, turns=(first._replace(written=first.written + 1, observed=first.observed - 1),
                                  *sample.turns[1:]))


def hidden_turn(sample: Sample) -> Sample | None:
    """A turn of the model is said to be the environment's: it would not be learned."""
    if len(sample.turns) < 3:
        return None
    first, second, *others = sample.turns
    return replace(sample, turns=(EpisodeTurn(first.written, first.observed + sum(second[:2]),
                                              first.reward + second.reward), *others))


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
    "a reply that is learned": learned_reply, "a turn that is not": hidden_turn, "a cut episode": cut_short,
    "another guess": another_guess, "a reply with a log probability": sure_reply,
    "another end": lambda sample: replace(sample, done=not sample.done)}
PLACES = 3
"""Of each fake so many are generated, each about another episode."""


@pytest.mark.parametrize("place", range(PLACES))
@pytest.mark.parametrize("name", FAKES)
def test_a_fake_about_an_episode_is_caught(honest: Path, tmp_path: Path, name: str, place: int) -> None:
    run = copied(honest, tmp_path)
    rollout = read(run)
    possible = [(group, number, fake) for group, of_group in enumerate(rollout.groups)
                for number, sample in enumerate(of_group.samples) if (fake := FAKES[name](sample)) is not None]
    assert len(possible) >= 2, "the run has too few episodes for this fake"
    group, number, fake = possible[place * (len(possible) - 1) // (PLACES - 1)]
    groups = [*rollout.groups]
    samples = [*groups[group].samples]
    samples[number] = fake
    groups[group] = replace(groups[group], samples=tuple(samples))
    follow(run, replace(rollout, groups=tuple(groups)))
    reseal.reseal(run)
    assert "recompute.episodes" in failed(run), f"{name}: {fake.turns}"


def copied(honest: Path, folder: Path) -> Path:
    """A copy of the run that may be changed."""
    shutil.copytree(honest, folder / "tiny")
    shutil.copy(honest.parent / "attempts.jsonl", folder)
    return folder / "tiny"


def change_prompts(run: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Changes every prompt's item, and the digest of all."""
    def edit(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        for row in rows:
            change(row["item"])
        return rows
    reseal.edit_lines(run / "data/prompts.jsonl", edit)
    rows = [json.loads(line) for line in (run / "data/prompts.jsonl").read_text().splitlines()]
    digest_says(run, prompts=read_recorded_prompts(rows, 7).digest)


def digest_says(run: Path, **digests: str) -> None:
    """Other digests of the data."""
    reseal.edit_json(run / "data/digests.json", lambda value: value | digests)


def easier(run: Path) -> None:
    """An environment with easier options, in all its places."""
    reseal.edit_json(run / "config/environment.json", lambda value: value | {"options": {"most": 2}})
    digest_says(run, environment=json_digest(json.loads((run / "config/environment.json").read_bytes())))


FAKES_ABOUT_TASKS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "another seed": (lambda run: change_prompts(run, lambda item: item.update(environment_seed=1)),
                     "recompute.episodes"),
    "another task": (lambda run: change_prompts(run, lambda item: item["environment_row"].update(hint=1)),
                     "recompute.episodes"),
    "a seed that is no number": (lambda run: change_prompts(run, lambda item: item.update(environment_seed="7")),
                                 "recompute.episodes"),
    "easier options": (easier, "consistency.environment"),
    "another version, not announced": (
        lambda run: reseal.edit_json(run / "config/environment.json", lambda value: value | {"version": "0"}),
        "consistency.environment"),
    "no environment": (lambda run: (run / "config/environment.json").unlink(), "consistency.environment"),
    "other tasks, by their digest": (lambda run: digest_says(run, traces="ab" * 32), "recompute.episodes"),
}


@pytest.mark.parametrize("name", FAKES_ABOUT_TASKS)
def test_a_fake_about_the_tasks_is_caught(honest: Path, tmp_path: Path, name: str) -> None:
    fake, expected = FAKES_ABOUT_TASKS[name]
    run = copied(honest, tmp_path)
    fake(run)
    reseal.reseal(run)
    assert expected in failed(run)


def test_an_honest_run_is_played_again(honest: Path) -> None:
    found = verify(honest)
    told = {check.id: f"{check.verdict}: {check.text}" for check in found.checks}
    assert (found.failed, found.level) == (0, 2), told
    assert told["recompute.episodes"].startswith("passed: 16 episodes with "), told
    rollout = read(honest)
    assert {len(sample.turns) for _, sample in rollout.all_samples} >= {1, 2, 3}, "episodes of each length"


def test_replies_are_never_learned(honest: Path) -> None:
    asked, rollout = recipe(**CHANGES), read(honest)
    algorithm: Any = asked.algorithm
    batch = batch_of(rollout, 0, RolloutShape.from_recipe(asked, algorithm, fsdp=1, pad_id=0), algorithm)
    for row, (prompt, sample) in enumerate(rollout.trained_samples[:4]):
        mask = batch.loss_mask.reshape(4, -1)[row]
        at = len(prompt.tokens) - 1
        for turn in sample.turns:
            assert mask[at:at + turn.written].all()
            assert not mask[at + turn.written:at + turn.written + turn.observed].any()
            at += turn.written + turn.observed
        assert mask.sum() == sum(turn.written for turn in sample.turns)


def test_an_environment_from_a_file_is_not_run(honest: Path, tmp_path: Path) -> None:
    run = copied(honest, tmp_path)
    reseal.change_config(run, lambda config: config | {"environment": config["environment"] | {
        "name": "own.py:Game"}})
    reseal.edit_json(run / "config/environment.json", lambda value: value | {"name": "own.py:Game"})
    digest_says(run, environment=json_digest(json.loads((run / "config/environment.json").read_bytes())))
    reseal.reseal(run)
    told = {check.id: check for check in verify(run).checks}["recompute.episodes"]
    assert (told.verdict, "own.py:Game is code from elsewhere" in told.text) == ("not_checked", True)
