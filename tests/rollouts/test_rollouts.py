"""Rollouts by hand: order, seeds, choice of groups, batches, advantages, lines that give back every bit."""

import contextlib
import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.record import synthetic
from tests.rollouts.making import PROMPTS, TWO, rollout, sample
from workings.data.batches import Position
from workings.engines.base import Completion
from workings.errors import RecordError, RequestError
from workings.record.canonical import dumps, loads
from workings.rollouts.prompts import Prompt, PromptSet, build_prompts, refuse_evaluation_items
from workings.rollouts.rollout import Group, Rollout, Sample, mismatch, rollout_metrics, sample_seed, select_groups
from workings.rollouts.rollout_json import from_json, to_json
from workings.scoring.items import Item, item_from_json
from workings.ways.distill import Distill
from workings.ways.parts.rollout_batch import RolloutShape, batch_of, digest_of
from workings.ways.rewards import Cispo, Dapo, DrGrpo, Grpo, Gspo, RewardWay, Rloo

SHAPE = RolloutShape(micro_batches=1, rows=4, updates=1, buckets=(8, 12), pad_id=0, learned=8)


def test_prompts_come_in_the_order_of_their_epoch_and_go_on_in_the_next() -> None:
    prompts = PromptSet(PROMPTS, (), seed=3)
    first, after = prompts.take(Position(), 5)
    assert sorted(place.prompt.item.id for place in first) == [f"p{n}" for n in range(5)]
    assert after == Position(1, 0)
    some, after = prompts.take(Position(0, 3), 4)
    assert [place.epoch for place in some] == [0, 0, 1, 1]
    assert [place.prompt for place in some[:2]] == [place.prompt for place in first[3:]]
    assert after == Position(1, 2)
    again = PromptSet(tuple(reversed(PROMPTS)), (), seed=3)
    assert [place.prompt for place in again.take(Position(), 5)[0]] == [place.prompt for place in first], "ids decide"
    with pytest.raises(RecordError, match="an epoch has 5 prompts only"):
        prompts.take(Position(0, 5), 1)


def test_a_seed_follows_from_what_a_sample_is_drawn_for() -> None:
    told = {sample_seed(*what) for what in ((1, 1, 0, "a", 0), (2, 1, 0, "a", 0), (1, 2, 0, "a", 0),
                                            (1, 1, 1, "a", 0), (1, 1, 0, "b", 0), (1, 1, 0, "a", 1))}
    assert len(told) == 6
    assert all(0 <= seed < 2**32 for seed in told)
    assert sample_seed(1, 1, 0, "a", 0) == 2839221619, "the records of earlier runs say so"


def test_earlier_turns_stand_before_the_question_and_belong_to_the_digest() -> None:
    plain = {"id": "a", "prompt": "And 2+2?", "expected_answer": "4"}
    turns = [{"role": "user", "content": "What is 1+1?"}, {"role": "assistant", "content": "2"}]
    told = [item_from_json(plain), item_from_json({**plain, "id": "b", "history": turns})]
    alone, after = build_prompts(told, synthetic.template(), seed=1, longest=200, drop=False).prompts
    said = synthetic.tokenizer().decode(list(after.tokens))
    assert said.index("What is 1+1?") < said.index("And 2+2?"), "read in the order of the conversation"
    assert tuple(synthetic.template().prompt_ids("And 2+2?")) == alone.tokens != after.tokens
    record = json.loads(json.dumps(after.to_json()))
    assert Prompt.from_json(record) == after
    other = [turns[0], {**turns[1], "content": "3"}]
    assert Prompt.from_json({**record, "item": {**record["item"], "history": other}}).digest != after.digest
    with pytest.raises(RecordError, match="not a prompt"):
        Prompt.from_json({**record, "item": {**record["item"], "history": "1+1"}})


def test_an_evaluation_item_is_not_learned_from() -> None:
    with pytest.raises(RequestError, match="evaluation items as well: p2"):
        refuse_evaluation_items(PROMPTS, [Item(id="x", prompt="  what IS 2? ", expected_answer="2")])
    refuse_evaluation_items(PROMPTS, [Item(id="x", prompt="What is 9?", expected_answer="9")])


@pytest.mark.parametrize(("dynamic", "kept"), [(False, [1, 1, 0, 0]), (True, [0, 1, 0, 1])])
def test_groups_without_spread_are_left_out_by_dynamic_sampling_only(dynamic, kept) -> None:
    assert select_groups([False, True, False, True], 2, dynamic=dynamic) == [bool(each) for each in kept]


def test_a_batch_by_hand() -> None:
    batch = batch_of(TWO, 0, SHAPE, DrGrpo(name="dr_grpo", max_new_tokens=6))
    assert batch.tokens.shape == (1, 4, 8)
    assert batch.tokens[0, 0].tolist() == [2, 3, 5, 6, 1, 0, 0, 0]
    assert batch.targets[0, 0].tolist() == [0, 5, 6, 1, 0, 0, 0, 0]
    assert batch.loss_mask[0, :, :5].tolist() == [[0, 1, 1, 1, 0], [0, 1, 0, 0, 0], [0, 0, 1, 1, 0], [0, 0, 1, 0, 0]]
    np.testing.assert_array_equal(batch.signals["advantage"][0, 0, :5], [0, 0.5, 0.5, 0.5, 0])
    np.testing.assert_array_equal(batch.signals["behavior_log_prob"][0, 0, :5], [0, -0.5, -1.0, -1.5, 0])
    assert batch.divisor == 4 * 6, "rows x the tokens that they could have had"
    assert batch.supervised_tokens == 3 + 1 + 2 + 1, "the stop token is learned, a cut-off completion has none"
    assert batch_of(TWO, 0, SHAPE, Dapo(name="dapo")).divisor == 7
    assert batch_of(TWO, 0, SHAPE, Grpo(name="grpo")).divisor == 4


def test_a_completion_that_was_cut_off_has_no_advantage_where_the_recipe_says_so() -> None:
    masked = batch_of(TWO, 0, SHAPE, Grpo(name="grpo", mask_truncated=True))
    as_usual = batch_of(TWO, 0, SHAPE, Grpo(name="grpo"))
    assert as_usual.signals["advantage"][0, 1].tolist() == [0, -0.5, 0, 0, 0, 0, 0, 0]
    assert not masked.signals["advantage"][0, 1].any()
    np.testing.assert_array_equal(masked.signals["advantage"][0, 0], as_usual.signals["advantage"][0, 0])
    assert masked.divisor == as_usual.divisor, "as in TRL, it still counts"
    assert digest_of(masked) != digest_of(as_usual)


def test_a_left_out_group_leaves_its_rows_empty() -> None:
    half = replace(TWO, groups=(TWO.groups[0], replace(TWO.groups[1], kept=False)), trainer_log_probs=())
    batch = batch_of(half, 0, SHAPE, Dapo(name="dapo"))
    assert not batch.segment_ids[0, 2:].any()
    assert batch.supervised_tokens == 4


def test_the_digest_sees_every_number_but_not_the_padding() -> None:
    algorithm = Grpo(name="grpo")
    batch = batch_of(TWO, 0, SHAPE, algorithm)
    padded = batch_of(TWO, 0, replace(SHAPE, pad_id=9), algorithm)
    assert digest_of(batch) == digest_of(padded) != digest_of(batch_of(TWO, 0, SHAPE, Dapo(name="dapo")))
    group = TWO.groups[0]
    for changed in (replace(group.samples[0], advantage=0.25), sample([5, 7], advantage=0.5),
                    sample([5, 6], advantage=0.5, log_prob=-0.25), sample([5, 6], stop=None, advantage=0.5)):
        other = rollout(replace(group, samples=(changed, group.samples[1])), TWO.groups[1])
        assert digest_of(batch_of(other, 0, SHAPE, algorithm)) != digest_of(batch)
    with_reference = replace(TWO, reference_log_probs=tuple(x * 2 for x in TWO.trainer_log_probs))
    made = batch_of(with_reference, 0, SHAPE, Grpo(name="grpo", kl_beta=0.1))
    assert digest_of(made) != digest_of(batch)
    np.testing.assert_allclose(made.signals["reference_log_prob"][0, 0, 1:4], [-1, -2, -3], rtol=1e-3)


@pytest.mark.parametrize(("algorithm", "expected"), [
    # Of 1, 0, 0, 0: mean 1/4, deviation of a sample 1/2.
    *((one, [0.75 / 0.5001, *[-0.25 / 0.5001] * 3]) for one in (
        Grpo(name="grpo"), Dapo(name="dapo"), Gspo(name="gspo"), Cispo(name="cispo"))),
    (DrGrpo(name="dr_grpo"), [0.75, -0.25, -0.25, -0.25]),
    (Rloo(name="rloo"), [1.0, -1 / 3, -1 / 3, -1 / 3]),  # minus the mean of the three others
])
def test_advantages_by_hand(algorithm: RewardWay, expected: list[float]) -> None:
    assert algorithm.advantages([1.0, 0.0, 0.0, 0.0]) == pytest.approx(expected, rel=1e-12)
    # 0.1 has no exact double: without care its differences from the mean would be rounding, divided by rounding.
    assert algorithm.advantages([0.1] * 8) == [0.0] * 8


def test_a_line_gives_back_every_bit() -> None:
    mixed = replace(TWO, reference_log_probs=tuple(x * np.float32(1.5) for x in TWO.trainer_log_probs))
    for made in (TWO, mixed, of_a_teacher()):
        line = loads(dumps(to_json(made)))
        again = from_json(line, {prompt.item.id: prompt for prompt in PROMPTS})
        assert again == made
        for name in ("trainer_log_probs", "reference_log_probs"):
            for one, other in zip(getattr(made, name), getattr(again, name), strict=True):
                assert one.tobytes() == other.tobytes()
        assert ("rewards" in line, "advantages" in line) == (made.groups[0].samples[0].rewards != {},) * 2
        assert [x for _, one in again.trained_samples for x in one.completion.log_probs] == [
            x for _, one in made.trained_samples for x in one.completion.log_probs], "not compared by Completion"


def of_a_teacher() -> Rollout:
    """The same completions without rewards; a teacher finds each token a quarter of a nat likelier for each before."""
    groups = tuple(replace(group, samples=tuple(replace(one, rewards={}, reward=0.0, advantage=0.0)
                                                for one in group.samples)) for group in TWO.groups)
    said = tuple(np.array([x + 0.25 * n for n, x in enumerate(one.completion.log_probs)], np.float32)
                 for _, one in TWO.trained_samples)
    return replace(TWO, groups=groups, reference_log_probs=said)


def test_advantages_of_a_teacher_by_hand() -> None:
    algorithm = Distill(name="distill", teacher="missing", group=1)
    batch = batch_of(of_a_teacher(), 0, SHAPE, algorithm)
    np.testing.assert_array_equal(batch.signals["advantage"][0, 0, :5], [0, 0, 0.25, 0.5, 0])
    assert set(batch.signals) == {"advantage", "behavior_log_prob"}, "what the teacher says is in the advantages"
    assert batch.divisor == 7, "tokens"
    unasked = batch_of(replace(of_a_teacher(), reference_log_probs=()), 0, SHAPE, algorithm)
    assert not unasked.signals["advantage"].any()
    moved = replace(of_a_teacher(), reference_log_probs=tuple(x - 1 for x in of_a_teacher().reference_log_probs))
    assert digest_of(batch_of(moved, 0, SHAPE, algorithm)) != digest_of(batch)
    found = rollout_metrics(of_a_teacher(), ())
    # Minus a quarter, a half, and a quarter once more over seven tokens.
    assert found["kl_teacher"] == pytest.approx(-1 / 7)
    assert not {"reward", "groups_without_spread"} & set(found)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.sampled_from([
    "step", "position", "after", "prompts", "epochs", "kept", "seeds", "stop_tokens", "lengths", "tokens",
    "sampler_log_probs", "trainer_log_probs", "rewards", "reward", "advantages"]),
    st.one_of(st.none(), st.integers(), st.text(max_size=5), st.lists(st.integers(-5, 2**40), max_size=5),
              st.dictionaries(st.text(max_size=3), st.lists(st.integers(), max_size=3), max_size=2)), min_size=1))
def test_a_hostile_line_is_a_record_error(changes: dict[str, object]) -> None:
    line = json.loads(dumps(to_json(TWO))) | changes
    with contextlib.suppress(RecordError):
        from_json(line, {prompt.item.id: prompt for prompt in PROMPTS})


def test_a_compressed_bomb_is_not_unpacked() -> None:
    import base64
    import zlib
    line = to_json(TWO) | {"tokens": base64.b85encode(zlib.compress(bytes(50_000_000))).decode()}
    with pytest.raises(RecordError, match="packed numbers"):
        from_json(line, {prompt.item.id: prompt for prompt in PROMPTS})


def test_a_token_takes_at_most_ten_bytes() -> None:
    """As unfavourable as it gets: any tokens of a vocabulary of 256,000, any probabilities, a trainer in bfloat16."""
    rng = np.random.default_rng(0)
    samples = []
    for number in range(64):
        log_probs = np.log(rng.uniform(size=201)).astype(np.float32)
        samples.append(Sample(seed=number, rewards={"answer": 1.0}, reward=1.0, advantage=0.123456789 * number,
                              completion=Completion(tokens=rng.integers(0, 256_000, 200).tolist(), stop_token=1,
                                                    finish_reason="stop", log_probs=log_probs.tolist())))
    made = rollout(Group(prompt=PROMPTS[0], epoch=0, samples=tuple(samples)))
    made = replace(made, trainer_log_probs=tuple(
        np.asarray(each.completion.log_probs, np.float32) * np.float32(1 + 1e-6) for each in samples))
    assert len(dumps(to_json(made))) / (64 * 201) < 10


def test_metrics_by_hand() -> None:
    found = rollout_metrics(TWO, ["answer"])
    assert (found["reward"], found["reward_answer"], found["completions"]) == (0.75, 0.75, 4)
    assert (found["groups_all_wrong"], found["groups_mixed"], found["groups_all_right"]) == (0, 0.5, 0.5)
    assert (found["groups_without_spread"], found["truncated"], found["empty"]) == (0.5, 0.25, 0.25)
    assert (found["completion_tokens"], found["completion_tokens_least"], found["completion_tokens_most"]) == (1, 0, 2)
    said = [x for _, one in TWO.trained_samples for x in one.completion.log_probs]
    apart = mismatch(TWO)
    assert apart["mismatch"] == pytest.approx(1e-4 * -sum(said) / len(said), rel=1e-2)
    assert apart["mismatch_most"] == pytest.approx(1.5e-4, rel=1e-2)
    assert apart["mismatch_ratio"] == pytest.approx(math.fsum(math.exp(1e-4 * x) for x in said) / len(said), rel=1e-6)
