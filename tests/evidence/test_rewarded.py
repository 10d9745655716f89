"""A run that learned from rewards: every number of its rollouts follows, and each fake about them is caught."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.evidence import reseal
from tests.evidence.rewarded import rewarded_run
from tests.evidence.verdicts import failed
from workings.evidence.verify import limits, verify
from workings.models.tokenizer import Tokenizer
from workings.record.digest import json_digest
from workings.rollouts import rollout_json
from workings.rollouts.rollout import sample_seed
from workings.scoring import mathematics

FIRST = "train/rollouts/step_000001.json"


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return rewarded_run(tmp_path_factory.mktemp("runs") / "tiny")


def change_rollout(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    """A forgery that edits the first rollout in place."""
    def forge(run: Path) -> None:
        def edit(value: dict[str, Any]) -> dict[str, Any]:
            change(value)
            return value
        reseal.edit_json(run / FIRST, edit)
    return forge


def another_token(value: dict[str, Any]) -> None:
    tokens = rollout_json.unpack_integers(value["tokens"], sum(value["lengths"])).copy()
    # In a group that was learned from: another token of one that was left out shows only when it is drawn again.
    tokens[sum(value["lengths"][:4 * value["kept"].index(True)]) + 3] += 1
    value["tokens"] = rollout_json.pack_integers(tokens)


def surer_when_drawn(value: dict[str, Any]) -> None:
    learned = sum(length + (stop >= 0) for length, stop in zip(value["lengths"], value["stop_tokens"], strict=True))
    bits = rollout_json.unpack_integers(value["sampler_log_probs"], learned).copy()
    first = 4 * value["kept"].index(True)
    before = sum(length + (stop >= 0) for length, stop in zip(value["lengths"][:first], value["stop_tokens"][:first],
                                                              strict=True))
    bits[before] = np.float32(-0.01).view(np.int32)
    value["sampler_log_probs"] = rollout_json.pack_integers(bits)


def trainer_agrees_more(value: dict[str, Any]) -> None:
    kept = [number for number, keep in enumerate(value["kept"]) if keep]
    size = len(value["lengths"]) // len(value["kept"])
    learned = sum(value["lengths"][at] + (value["stop_tokens"][at] >= 0)
                  for number in kept for at in range(number * size, (number + 1) * size))
    value["trainer_log_probs"] = rollout_json.pack_integers(np.zeros(learned, np.int32))


def leave_out_the_first_group(value: dict[str, Any]) -> None:
    first = value["kept"].index(True)
    value["kept"][first] = False


def no_stop_token(run: Path) -> None:
    """A completion that ended is said to have been cut off."""
    def change(value: dict[str, Any]) -> dict[str, Any]:
        rollout = rollout_json.from_json(value, _prompts(run))
        at = next(number for number, stop in enumerate(value["stop_tokens"]) if stop >= 0)
        drawn = [sample for group in rollout.groups for sample in group.samples]
        kept = [x for number, sample in enumerate(drawn)
                for x in (sample.completion.log_probs[:-1] if number == at else sample.completion.log_probs)]
        value["stop_tokens"][at] = -1
        value["sampler_log_probs"] = rollout_json.pack_integers(np.array(kept, "<f4").view("<i4"))
        said = np.concatenate([x[:-1] if sample is drawn[at] else x for (_, sample), x in
                               zip(rollout.trained_samples, rollout.trainer_log_probs, strict=True)])
        learned = [x for _, sample in rollout.trained_samples
                   for x in (sample.completion.log_probs[:-1] if sample is drawn[at] else sample.completion.log_probs)]
        value["trainer_log_probs"] = rollout_json.pack_integers(said.view("<i4") - np.array(learned, "<f4").view("<i4"))
        return value
    reseal.edit_json(run / FIRST, change)


def _prompts(run: Path) -> dict[str, Any]:
    from workings.rollouts.prompts import Prompt
    rows = [json.loads(line) for line in (run / "data/prompts.jsonl").read_text().splitlines()]
    return {row["id"]: Prompt.from_json(row) for row in rows}


def easier_prompt(run: Path) -> None:
    """Another expected answer, its digest made again."""
    from workings.rollouts.prompts import read_recorded_prompts
    drawn = json.loads((run / FIRST).read_bytes())["prompts"]
    def change(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        for row in rows:
            if row["id"] in drawn:
                row["item"]["expected_answer"] = "1"
        return rows
    reseal.edit_lines(run / "data/prompts.jsonl", change)
    rows = [json.loads(line) for line in (run / "data/prompts.jsonl").read_text().splitlines()]
    _say(run, "prompts", read_recorded_prompts(rows, 7).digest)


def another_conversation(run: Path) -> None:
    """A turn before a question that the model never read, its digest made again."""
    from workings.rollouts.prompts import read_recorded_prompts
    def change(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        rows[0]["item"]["history"] = [{"role": "user", "content": "1+1?"}, {"role": "assistant", "content": "2"}]
        return rows
    reseal.edit_lines(run / "data/prompts.jsonl", change)
    rows = [json.loads(line) for line in (run / "data/prompts.jsonl").read_text().splitlines()]
    _say(run, "prompts", read_recorded_prompts(rows, 7).digest)


def _say(run: Path, name: str, digest: str) -> None:
    digests = json.loads((run / "data/digests.json").read_bytes()) | {name: digest}
    reseal.edit_json(run / "data/digests.json", lambda value: digests)


def another_weight(run: Path) -> None:
    """The weight of a reward, in its own file and with its digest, not in the recipe."""
    def change(value: list[dict[str, Any]]) -> list[dict[str, Any]]:
        value[1]["weight"] = 0.25
        return value
    reseal.edit_json(run / "config/rewards.json", change)
    _say(run, "rewards", json_digest(json.loads((run / "config/rewards.json").read_bytes())))


def no_rollouts(run: Path) -> None:
    shutil.rmtree(run / "train/rollouts")


def better_reward_in_the_log(run: Path) -> None:
    reseal.edit_lines(run / "train/metrics.jsonl", lambda rows: [
        row | ({"reward": 1.0} if "reward" in row else {}) for row in rows])


def call_it_imitation(run: Path) -> None:
    """Without an algorithm no one looks for rollouts, and then the rows are missing."""
    reseal.change_config(run, lambda config: config | {"algorithm": {"name": "sft"}, "rewards": []})


def flip_thoroughly(run: Path) -> None:
    """The most patient forger: reward, sum, advantages, metrics and batch digests all follow from the fake."""
    from tests.evidence.rewarded import recipe
    from workings.rollouts import arithmetic
    from workings.rollouts.rollout import RolloutShape, batch_of, digest_of
    algorithm: Any = recipe().algorithm

    def change(value: dict[str, Any]) -> dict[str, Any]:
        at = next(number for number in range(len(value["kept"])) if value["kept"][number]) * 4
        value["rewards"]["answer"][at] = 1 - value["rewards"]["answer"][at]
        for group in range(len(value["kept"])):
            own = range(group * 4, group * 4 + 4)
            sums = [value["rewards"]["answer"][n] + 0.5 * value["rewards"]["overlong"][n] for n in own]
            for number, reward, advantage in zip(own, sums, algorithm.advantages(sums), strict=True):
                value["reward"][number], value["advantages"][number] = reward, advantage
        return value
    reseal.edit_json(run / FIRST, change)
    rollout = rollout_json.from_json(json.loads((run / FIRST).read_bytes()), _prompts(run))
    shape = RolloutShape.from_recipe(recipe(), algorithm, fsdp=1, pad_id=0)

    def follow(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        rows[0] |= arithmetic.rollout_metrics(rollout, ["answer", "overlong"])
        for part in (0, 1):
            rows[part]["batch_digest"] = digest_of(batch_of(rollout, part, shape, algorithm))
        return rows
    reseal.edit_lines(run / "train/metrics.jsonl", follow)


def hide_a_question(run: Path) -> None:
    reseal.edit_lines(run / "data/prompts.jsonl", lambda rows: [rows[0] | {"prompt_digest": "ab" * 32}, *rows[1:]])


FORGERIES: dict[str, tuple[Callable[[Path], None], set[str]]] = {
    "one reward flipped": (
        change_rollout(lambda value: value["rewards"]["answer"].__setitem__(0, 1 - value["rewards"]["answer"][0])),
        {"recompute.rewards", "consistency.rollouts"}),
    "one reward flipped, all that follows made again": (flip_thoroughly, {"recompute.rewards"}),
    "one advantage moved": (
        change_rollout(lambda value: value["advantages"].__setitem__(0, value["advantages"][0] + 0.5)),
        {"recompute.rewards"}),
    "one token changed": (change_rollout(another_token), set()),
    "one seed changed": (change_rollout(lambda value: value["seeds"].__setitem__(0, 1)), {"consistency.rollouts"}),
    "seeds of another step": (
        change_rollout(lambda value: value.update(seeds=[
            sample_seed(7, 9, value["epochs"][number // 4], value["prompts"][number // 4], number % 4)
            for number in range(len(value["seeds"]))])), {"consistency.rollouts"}),
    "two prompts exchanged": (
        change_rollout(lambda value: value["prompts"].insert(0, value["prompts"].pop(1))), {"consistency.rollouts"}),
    "a group left out that should be learned from": (change_rollout(leave_out_the_first_group), set()),
    "a log probability of the sampler": (change_rollout(surer_when_drawn), set()),
    "the trainer agrees more": (change_rollout(trainer_agrees_more), {"consistency.rollouts"}),
    "a completion that was cut off": (no_stop_token, {"recompute.rewards"}),
    "an easier prompt": (easier_prompt, {"recompute.rewards"}),
    "another conversation before a question": (another_conversation, {"recompute.rewards"}),
    "another weight of a reward": (another_weight, {"consistency.prompts"}),
    "a question that is measured with as well, hidden": (hide_a_question, {"consistency.prompts"}),
    "no rollouts": (no_rollouts, {"consistency.rollouts"}),
    "a better reward in the log": (better_reward_in_the_log, {"consistency.rollouts"}),
    "imitation instead": (call_it_imitation, {"consistency.rows"}),
    "the next rollout begins elsewhere": (
        change_rollout(lambda value: value["after"].update(batch=0, epoch=0)), {"consistency.rollouts"}),
}


def test_an_honest_run_verifies_without_weights(honest: Path) -> None:
    found = verify(honest)
    told = {check.id: f"{check.verdict}: {check.text}" for check in found.checks}
    assert (found.failed, found.level) == (0, 2), told
    assert told["consistency.rollouts"].startswith("passed: 2 rollouts")
    assert told["recompute.rewards"].startswith("passed")


def test_a_vocabulary_of_endless_tokens_is_not_written_out(honest: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tokenizer, "token", lambda self, token_id: "x" * 10_000_000)
    found = {check.id: check for check in verify(honest).checks}["recompute.rewards"]
    assert found.verdict != "passed"
    assert "the text of its completions would take" in found.text


def test_dynamic_sampling_drew_again_and_left_groups_out(honest: Path) -> None:
    rollouts = [json.loads(path.read_bytes()) for path in sorted((honest / "train/rollouts").iterdir())]
    assert all(sum(value["kept"]) == 2 for value in rollouts)
    assert any(len(value["kept"]) > 2 for value in rollouts), "another round was drawn"


@pytest.mark.parametrize("name", FORGERIES)
def test_a_fake_about_rollouts_is_caught(honest: Path, tmp_path: Path, name: str) -> None:
    forge, expected = FORGERIES[name]
    run = tmp_path / "tiny"
    shutil.copytree(honest, run)
    shutil.copy(honest.parent / "attempts.jsonl", tmp_path)
    forge(run)
    reseal.reseal(run)
    found = failed(run)
    assert found, f"{name}: nothing failed"
    assert expected <= found, found
    assert not any(check.startswith("integrity") for check in found), "the sums are right: the content is false"


def test_the_reward_math_is_computed_again_where_its_library_is_the_same(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("math_verify", reason="the extra `score` is not installed")
    run = rewarded_run(tmp_path / "tiny", rewards=[{"scorer": "math"}])
    found = verify(run)
    told = {check.id: f"{check.verdict}: {check.text}" for check in found.checks}
    assert (found.failed, found.level) == (0, 2), told
    monkeypatch.setattr(mathematics, "LIBRARIES", ("no-such-library",))
    found = verify(run)
    told = {check.id: f"{check.verdict}: {check.text}" for check in found.checks}
    assert found.failed == 0, told
    assert told["recompute.rewards"].startswith("not_checked: scorer: math needs math-verify"), told


def test_a_reward_from_a_file_is_not_run(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("def short(prompts, completions, **columns):\n"
                                     "    return [-float(len(text)) for text in completions]\n")
    run = rewarded_run(tmp_path / "tiny", rewards=[{"scorer": "answer"}, {"scorer": "own.py:short", "weight": 0.01}])
    (tmp_path / "own.py").unlink()
    found = verify(run)
    told = {check.id: f"{check.verdict}: {check.text}" for check in found.checks}
    assert found.failed == 0, told
    assert "own.py:short" in told["recompute.rewards"], "said, not passed in silence"


def test_a_function_that_the_run_keeps_is_the_recorded_one(tmp_path: Path) -> None:
    source = "def short(prompts, completions, **columns):\n    return [0.5] * len(prompts)\n"
    (tmp_path / "own.py").write_text(source)
    run = rewarded_run(tmp_path / "tiny", rewards=[{"scorer": "answer"}, {"scorer": "own.py:short"}])
    for name, text, fails in (
            ("own.py", source, set()), ("own.py", source.replace("0.5", "0.6"), {"consistency.prompts"}),
            ("other.py", source, {"consistency.prompts"}), ("more/own.py", source, {"content.plain"})):
        kept = run / "config" / name
        kept.parent.mkdir(exist_ok=True)
        kept.write_text(text)
        reseal.reseal(run)
        assert failed(run) == fails, name
        kept.unlink()


def test_limits_of_a_function_are_the_recipes(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("def short(prompts, completions, **columns):\n    return [0.5] * len(prompts)\n")
    run = rewarded_run(tmp_path / "tiny", rewards=[{"scorer": "answer"}, {"scorer": "own.py:short", "seconds": 9}])
    assert json.loads((run / "config/rewards.json").read_bytes())[1]["parameters"] == {"seconds": 9}
    assert not failed(run)

    def change(value: list[dict[str, Any]]) -> list[dict[str, Any]]:
        value[1]["parameters"] = {"seconds": 99}
        return value
    reseal.edit_json(run / "config/rewards.json", change)
    _say(run, "rewards", json_digest(json.loads((run / "config/rewards.json").read_bytes())))
    reseal.reseal(run)
    assert "consistency.prompts" in failed(run)


def test_rewarding_that_takes_too_long(honest: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits.ScoringTime, "reason_over", property(lambda clock: "enough" if clock.seconds else ""))
    found = verify(honest)
    rewards = {one.id: one for one in found.checks}["recompute.rewards"]
    assert (found.level, rewards.verdict) == (1, "not_checked")
    assert "rewards were computed again, and no more: enough" in rewards.text
