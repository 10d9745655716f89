"""Conversion of a rollout to the JSON object of its file in `train/rollouts/` and back.

A list has a value for each prompt, or for each sample of all groups in order; all groups have equally many samples.
Numbers per token are packed: a token with both log probabilities takes six to nine bytes.
"""

import base64
import binascii
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from math import isfinite
from typing import Any

import numpy as np

from workings.data.batches import Position
from workings.engines.base import Completion
from workings.errors import RecordError
from workings.record.storage import refuse_too_large
from workings.rollouts.prompts import Prompt
from workings.rollouts.rollout import EpisodeTurn, Group, Rollout, Sample

TOKEN_BYTES = 90
"""Upper limit of the memory of a token with its log probabilities."""


def to_json(rollout: Rollout) -> dict[str, Any]:
    """The rollout as JSON values; `from_json` gives it back bit for bit."""
    samples = [sample for _, sample in rollout.all_samples]
    trained = [x for _, sample in rollout.trained_samples for x in sample.completion.log_probs]
    optional: dict[str, Any] = {}
    if samples[0].rewards:
        optional["rewards"] = {name: [sample.rewards[name] for sample in samples] for name in samples[0].rewards}
        optional["reward"] = [sample.reward for sample in samples]
        optional["advantages"] = [sample.advantage for sample in samples]
    if any(sample.judge_reply for sample in samples):
        optional["judge_replies"] = [sample.judge_reply for sample in samples]
    if samples[0].turns:
        optional["episodes"] = {
            "turns": [len(sample.turns) for sample in samples], "done": [sample.done for sample in samples],
            **{name: [getattr(turn, name) for sample in samples for turn in sample.turns]
               for name in EpisodeTurn._fields}}
    # Of two models that nearly agree, the difference of the bits of their log probabilities is small. NumPy's int32
    # wraps around without an error, so adding the difference gives back the bits of any two floats.
    trainer_bits = _bits(np.concatenate([np.zeros(0, np.float32), *rollout.trainer_log_probs]))
    if rollout.reference_log_probs:
        reference_bits = _bits(np.concatenate([np.zeros(0, np.float32), *rollout.reference_log_probs]))
        optional["reference_bits_from_trainer"] = pack_integers(reference_bits - trainer_bits)
    if rollout.sampler:
        optional["sampler"] = dict(rollout.sampler)
    return optional | {
        "step": rollout.step, "position": rollout.position.to_json(), "after": rollout.after.to_json(),
        "prompts": [group.prompt.item.id for group in rollout.groups],
        "epochs": [group.epoch for group in rollout.groups],
        "kept": [group.kept for group in rollout.groups],
        "seeds": [sample.seed for sample in samples],
        # The stop token follows the completion's tokens; -1: cut off.
        "stop_tokens": [-1 if sample.completion.stop_token is None else sample.completion.stop_token
                        for sample in samples],
        "lengths": [len(sample.completion.tokens) for sample in samples],
        "tokens": pack_integers(np.array([x for sample in samples for x in sample.completion.tokens], "<i4")),
        "sampler_log_probs": pack_integers(_bits([x for sample in samples for x in sample.completion.log_probs])),
        "trainer_log_probs": pack_integers(trainer_bits - _bits(trained))}


def _bits(numbers: np.ndarray | list[float]) -> np.ndarray:
    """The bits of float32 numbers, as int32 numbers."""
    return np.array(numbers, "<f4").view("<i4")


def from_json(line: Mapping[str, Any], prompts: Mapping[str, Prompt]) -> Rollout:
    """Reads the rollout that `to_json` wrote. Raises `RecordError` for missing values and contradictions."""
    try:
        return _read(line, prompts)
    except (KeyError, ValueError, TypeError, IndexError, OverflowError, AttributeError) as error:
        raise RecordError(f"rollout of step {str(line.get('step'))[:20]}: {type(error).__name__} "
                          f"{str(error)[:80]}") from None


def _read(line: Mapping[str, Any], prompts: Mapping[str, Prompt]) -> Rollout:
    _check_lengths(line)
    samples = _read_samples(line)
    ids = line["prompts"]
    size = len(samples) // len(ids)
    groups = tuple(Group(prompt=prompts[name], epoch=line["epochs"][number], kept=bool(line["kept"][number]),
                         samples=tuple(samples[number * size:(number + 1) * size])) for number, name in enumerate(ids))
    rollout = Rollout(step=line["step"], position=Position.from_json(line["position"]),
                      after=Position.from_json(line["after"]), groups=groups,
                      sampler={str(key): str(value) for key, value in line.get("sampler", {}).items()})
    counts = [len(sample.tokens_with_stop) for _, sample in rollout.trained_samples]
    sampler_bits = _bits([x for _, sample in rollout.trained_samples for x in sample.completion.log_probs])
    trainer_bits = unpack_integers(line["trainer_log_probs"], sum(counts)) + sampler_bits
    # `np.split` makes one empty piece of an empty array.
    if not counts:
        return rollout
    ends = np.cumsum(counts)[:-1]
    rollout = replace(rollout, trainer_log_probs=tuple(np.split(trainer_bits.view("<f4"), ends)))
    if "reference_bits_from_trainer" not in line:
        return rollout
    reference_bits = unpack_integers(line["reference_bits_from_trainer"], sum(counts)) + trainer_bits
    return replace(rollout, reference_log_probs=tuple(np.split(reference_bits.view("<f4"), ends)))


def _check_lengths(line: Mapping[str, Any]) -> None:
    """Raises ``ValueError`` unless there is one value for each prompt or each sample, and tokens fit in memory."""
    ids, lengths = line["prompts"], line["lengths"]
    count = len(lengths)
    per_sample = [line["seeds"], line["stop_tokens"]]
    if rewards := line.get("rewards", {}):
        per_sample += [line["reward"], line["advantages"], *rewards.values()]
    if "judge_replies" in line:
        per_sample.append(line["judge_replies"])
    if not ids or count % len(ids) or any(len(values) != count for values in per_sample) or any(
            len(line[name]) != len(ids) for name in ("epochs", "kept")):
        raise ValueError("its lists differ in length")
    # By type, because to Python `true` is an int.
    if any(type(length) is not int or length < 0 for length in lengths):
        raise ValueError('"lengths" must be whole numbers from 0 on')
    # Before tokens are unpacked: some kilobytes can claim a hundred million.
    refuse_too_large(TOKEN_BYTES * sum(lengths), "its tokens")


def _read_samples(line: Mapping[str, Any]) -> list[Sample]:
    lengths, stops, rewards = line["lengths"], line["stop_tokens"], line.get("rewards", {})
    replies = line.get("judge_replies", [""] * len(lengths))
    sums = advantages = [0.0] * len(lengths)
    if rewards:
        sums, advantages = line["reward"], line["advantages"]
    tokens = np.split(unpack_integers(line["tokens"], sum(lengths)), np.cumsum(lengths)[:-1])
    # The stop token, after the completion's tokens, also has a log probability.
    with_stop = [length + (stop >= 0) for length, stop in zip(lengths, stops, strict=True)]
    log_probs = np.split(unpack_integers(line["sampler_log_probs"], sum(with_stop)), np.cumsum(with_stop)[:-1])
    episodes = _read_episodes(line, with_stop)
    return [Sample(
        seed=line["seeds"][number], turns=turns, done=done,
        completion=Completion(
            tokens=tokens[number].tolist(), finish_reason="length" if stop < 0 else "stop",
            stop_token=None if stop < 0 else stop, log_probs=log_probs[number].view("<f4").tolist()),
        rewards={name: float(values[number]) for name, values in rewards.items()},
        reward=float(sums[number]), advantage=float(advantages[number]),
        judge_reply=str(replies[number]))
        for number, (stop, (turns, done)) in enumerate(zip(stops, episodes, strict=True))]


def _read_episodes(line: Mapping[str, Any], with_stop: Sequence[int]) -> list[tuple[tuple[EpisodeTurn, ...], bool]]:
    """Turns of each sample, and whether its environment ended it. ``with_stop``: tokens of each sample."""
    if "episodes" not in line:
        return [((), False)] * len(with_stop)
    values = line["episodes"]
    if {*values} != {"turns", "done", *EpisodeTurn._fields} or len(values["done"]) != len(with_stop):
        raise ValueError('other keys of "episodes", or not one for each sample')
    if any(type(value) is not bool for value in values["done"]):
        raise ValueError('"done" is true or false')
    turns = iter([EpisodeTurn(written, observed, _finite(reward)) for written, observed, reward in zip(
        *(values[name] for name in EpisodeTurn._fields), strict=True)])
    episodes = [tuple(islice(turns, count)) for count in values["turns"]]
    for episode, count in zip(episodes, with_stop, strict=True):
        counts = [number for turn in episode for number in (turn.written, turn.observed)]
        if any(type(number) is not int or number < 0 for number in counts) or sum(counts) != count:
            raise ValueError("turns with other tokens than their episode")
    if next(turns, None) is not None or not all(episodes):
        raise ValueError("turns that belong to no episode")
    return [*zip(episodes, values["done"], strict=True)]


def _finite(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise ValueError("rewards that are no numbers")
    return float(value)


def pack_integers(values: np.ndarray) -> str:
    """32-bit integers as text: grouped bytes, compressed, in base 85."""
    # First the lowest byte of every number, then the second, and so on: high bytes repeat, and compress.
    planes = np.ascontiguousarray(values.view(np.uint8).reshape(-1, 4).T)
    # Base 85 takes 5 characters for 4 bytes (base 64: 4 for 3), without JSON escapes.
    return base64.b85encode(zlib.compress(planes.tobytes(), 6)).decode("ascii")


def unpack_integers(text: str, count: int) -> np.ndarray:
    """int32 ``[count]``. Raises ``ValueError`` for any other number of values, before they take memory."""
    try:
        # One byte more than expected is enough to see that there are too many.
        planes = zlib.decompressobj().decompress(base64.b85decode(text), 4 * count + 1)
    except (binascii.Error, zlib.error) as error:
        raise ValueError(f"not packed numbers ({error})") from None
    if len(planes) != 4 * count:
        raise ValueError(f"other than {count:,} packed numbers")
    return np.ascontiguousarray(np.frombuffer(planes, np.uint8).reshape(4, -1).T).view("<i4").reshape(-1)
