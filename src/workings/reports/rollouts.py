"""Reads the completions of a run's rollouts, and their rewards, as texts for people."""

import os
import re
from collections.abc import Collection
from pathlib import Path
from statistics import fmean

from workings.errors import RecordError
from workings.models.tokenizer import Tokenizer
from workings.record.canonical import loads
from workings.record.layout import PROMPTS, ROLLOUTS, rollout_file, rollout_step
from workings.record.storage import MAX_BYTES, open_plain, read_plain
from workings.rollouts.prompts import Prompt
from workings.rollouts.rollout import Group, Rollout, Sample
from workings.rollouts.rollout_json import from_json

# Control characters except line break and tab, and those that change the text's direction.
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def rollout_steps(run: Path) -> list[int]:
    """First updates of the rollouts that a record has, ascending; links are not followed."""
    folder = run / ROLLOUTS
    if folder.is_symlink() or not folder.is_dir():
        return []
    with os.scandir(folder) as entries:
        return sorted(step for entry in entries if (step := rollout_step(entry.name)) is not None
                      and entry.is_file(follow_symlinks=False))


def read_rollout(run: Path, step: int) -> Rollout:
    """The rollout whose first update is this one. Raises `RecordError`."""
    path = run / rollout_file(step)
    if path.is_symlink() or not path.is_file():
        raise RecordError(f"there is no rollout of update {step} in this record: {rollout_file(step)} is missing")
    try:
        line = loads(read_plain(path))
        if line["step"] != step:
            raise ValueError("its update differs from its file name")
        return from_json(line, _prompts(run, set(line["prompts"])))
    except (RecordError, OSError, KeyError, ValueError, TypeError, OverflowError, AttributeError) as error:
        reason = str(error) if isinstance(error, RecordError | ValueError) else type(error).__name__
        raise RecordError(f"{ROLLOUTS}/{path.name} cannot be read: {reason[:160]}") from None


def mean_reward(group: Group) -> float:
    """Over the completions of a prompt."""
    return fmean(sample.reward for sample in group.samples)


def texts(sample: Sample, tokenizer: Tokenizer) -> tuple[str, str]:
    """Text of a completion, and the token that ended it (empty: it was cut off); both as `visible` writes them.

    Raises `RecordError` if a token id is not one of the tokenizer's.
    """
    stop = sample.completion.stop_token
    try:
        return (visible(tokenizer.decode(sample.completion.tokens)),
                "" if stop is None else visible(tokenizer.token(stop)))
    except (OverflowError, TypeError) as error:  # ids below 0
        raise RecordError("a completion has token ids that the tokenizer lacks") from error


def visible(text: str) -> str:
    """A model's text with invisible and direction-changing characters written out."""
    return _UNSEEN.sub(lambda sign: f"\u27e8U+{ord(sign[0]):04X}\u27e9", text)


def _prompts(run: Path, prompt_ids: Collection[str]) -> dict[str, Prompt]:
    prompts: dict[str, Prompt] = {}
    if not os.path.lexists(run / PROMPTS):
        raise RecordError(f"{PROMPTS} is missing, and only it has the prompts")
    with open_plain(run / PROMPTS, MAX_BYTES) as file:
        for line in file:
            record = loads(line)
            if record.get("status") == "kept" and record.get("id") in prompt_ids:
                prompts[str(record["id"])] = Prompt.from_json(record)
            if len(prompts) == len(prompt_ids):
                break
    return prompts
