"""A rollout as the JSON object of its file in `train/rollouts/`, and back.

Numbers for each token are packed: as bytes, those of like significance side by side, compressed, in base 85. A token
with both log probabilities takes six to nine bytes. What is there once for a completion stays readable.
"""

import base64
import binascii
import zlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from workings.data.batches import Position
from workings.engines.base import Completion
from workings.errors import RecordError
from workings.record.plain import refuse_too_large
from workings.rollouts.prompts import Prompt
from workings.rollouts.rollout import Group, Rollout, Sample

TOKEN_BYTES = 90
"""What a token with its log probabilities takes in memory, at most."""


def to_json(rollout: Rollout) -> dict[str, Any]:
    """The rollout as JSON values; `from_json` gives it back bit for bit."""
    samples = [sample for _, sample in rollout.drawn]
    drawn = [x for sample in samples for x in sample.completion.log_probs]
    learned = [x for _, sample in rollout.learned for x in sample.completion.log_probs]
    said = np.concatenate([np.zeros(0, np.float32), *rollout.trainer_log_probs])
    names = list(samples[0].rewards)
    rewards = {} if not names else {
        "rewards": {name: [sample.rewards[name] for sample in samples] for name in names},
        "reward": [sample.reward for sample in samples], "advantages": [sample.advantage for sample in samples]}
    reference = np.concatenate([np.zeros(0, np.float32), *rollout.reference_log_probs])
    said_too = {"reference_log_probs": _pack(reference.view("<i4"))} if rollout.reference_log_probs else {}
    return rewards | said_too | {
        "step": rollout.step, "position": rollout.position.to_json(), "after": rollout.after.to_json(),
        "prompts": [group.prompt.item.id for group in rollout.groups],
        "epochs": [group.epoch for group in rollout.groups],
        "kept": [group.kept for group in rollout.groups],
        "seeds": [sample.seed for sample in samples],
        # The stop token is the last of those that were learned; -1: cut off.
        "stop_tokens": [-1 if sample.completion.stop_token is None else sample.completion.stop_token
                        for sample in samples],
        "lengths": [len(sample.completion.tokens) for sample in samples],
        "tokens": _pack(np.array([x for sample in samples for x in sample.completion.tokens], "<i4")),
        "sampler_log_probs": _pack(np.array(drawn, "<f4").view("<i4")),
        # As the difference of their bits from the sampler's, which is small where both agree.
        # NumPy's int32 wraps around without an error, so adding the difference gives back the bits of any two floats.
        "trainer_log_probs": _pack(said.astype("<f4").view("<i4") - np.array(learned, "<f4").view("<i4"))}


def from_json(line: Mapping[str, Any], prompts: Mapping[str, Prompt]) -> Rollout:
    """The rollout that `to_json` wrote.

    Args:
        line: contents of the file.
        prompts: by id.

    Raises:
        RecordError: a key is missing or its values do not go together.
    """
    try:
        return _read(line, prompts)
    except (KeyError, ValueError, TypeError, IndexError, OverflowError, AttributeError) as error:
        raise RecordError(f"rollout of step {str(line.get('step'))[:20]}: {type(error).__name__} "
                          f"{str(error)[:80]}") from None


def _read(line: Mapping[str, Any], prompts: Mapping[str, Prompt]) -> Rollout:
    ids, lengths, stops = line["prompts"], line["lengths"], line["stop_tokens"]
    count = len(lengths)
    # A line without rewards is one of a run that has none.
    rewards = line.get("rewards", {})
    numbers = [line[name] for name in ("reward", "advantages")] if rewards else [[0.0] * count] * 2
    if not ids or count % len(ids) or any(len(values) != count for values in (
            line["seeds"], stops, *numbers, *rewards.values())) or any(
            len(line[name]) != len(ids) for name in ("epochs", "kept")):
        raise ValueError("its lists differ in length")
    # By type, because to Python `true` is an int.
    if any(type(length) is not int or length < 0 for length in lengths):
        raise ValueError('"lengths" must be whole numbers from 0 on')
    # Before they are unpacked: some kilobytes can claim a hundred million.
    refuse_too_large(TOKEN_BYTES * sum(lengths), "its tokens")
    tokens = _unpack(line["tokens"], sum(lengths))
    learned = [length + (stop >= 0) for length, stop in zip(lengths, stops, strict=True)]
    drawn = _unpack(line["sampler_log_probs"], sum(learned))
    of_tokens, of_learned = np.cumsum([0, *lengths]), np.cumsum([0, *learned])
    samples = [Sample(
        seed=line["seeds"][number],
        completion=Completion(
            tokens=tokens[of_tokens[number]:of_tokens[number + 1]].tolist(),
            finish_reason="length" if stops[number] < 0 else "stop",
            stop_token=None if stops[number] < 0 else stops[number],
            log_probs=drawn[of_learned[number]:of_learned[number + 1]].view("<f4").tolist()),
        rewards={name: float(values[number]) for name, values in rewards.items()},
        reward=float(numbers[0][number]), advantage=float(numbers[1][number])) for number in range(count)]
    size = count // len(ids)
    groups = tuple(Group(prompt=prompts[ids[at]], epoch=line["epochs"][at], kept=bool(line["kept"][at]),
                         samples=tuple(samples[at * size:(at + 1) * size])) for at in range(len(ids)))
    rollout = Rollout(step=line["step"], position=Position.from_json(line["position"]),
                      after=Position.from_json(line["after"]), groups=groups)
    lengths = [len(sample.learned) for _, sample in rollout.learned]
    # Of the groups that are kept only: what was left out was never said again.
    bits = np.array([x for _, sample in rollout.learned for x in sample.completion.log_probs], "<f4").view("<i4")
    said = (_unpack(line["trainer_log_probs"], sum(lengths)) + bits).view("<f4")
    # `np.split` makes one empty piece of nothing, and there would be no sample that it belongs to.
    if not lengths:
        return rollout
    ends = np.cumsum(lengths)[:-1]
    with_trainer = replace(rollout, trainer_log_probs=tuple(np.split(said, ends)))
    if "reference_log_probs" not in line:
        return with_trainer
    reference = _unpack(line["reference_log_probs"], sum(lengths)).view("<f4")
    return replace(with_trainer, reference_log_probs=tuple(np.split(reference, ends)))


def _pack(values: np.ndarray) -> str:
    # Bytes of like significance side by side: exponents and high bytes repeat, and compress.
    planes = np.ascontiguousarray(values.view(np.uint8).reshape(-1, 4).T)
    # Base 85 takes 5 characters for 4 bytes (base 64: 4 for 3), and JSON has to escape none of them.
    return base64.b85encode(zlib.compress(planes.tobytes(), 6)).decode("ascii")


def _unpack(text: str, count: int) -> np.ndarray:
    """int32 ``[count]``. Raises ``ValueError`` for any other number of values, before they take memory."""
    try:
        # One byte more than expected is enough to see that there are too many.
        planes = zlib.decompressobj().decompress(base64.b85decode(text), 4 * count + 1)
    except (binascii.Error, zlib.error) as error:
        raise ValueError(f"not packed numbers ({error})") from None
    if len(planes) != 4 * count:
        raise ValueError(f"other than {count:,} packed numbers")
    return np.ascontiguousarray(np.frombuffer(planes, np.uint8).reshape(4, -1).T).view("<i4").reshape(-1)
