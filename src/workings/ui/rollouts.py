"""Rollouts of a run: groups of completions with their rewards, page by page."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import Query
from pydantic import BaseModel, Field

from workings.errors import RecordError, RequestError
from workings.models.tokenizer import Tokenizer
from workings.record.canonical import read_json
from workings.record.layout import CONFIG, REWARDS, TEACHER, TOKENIZER, rollout_file
from workings.reports.rollouts import mean_reward, read_rollout, rollout_steps, texts, visible
from workings.rollouts.rollout import Group, Rollout, Sample
from workings.ui.folder import Folder, Parsed
from workings.ui.requests import paged
from workings.ui.site import Site

COMPLETIONS_A_PAGE = 96
"""Completions per page; a page has whole groups, at least one."""
MAX_CHARACTERS_SHOWN = 20_000
"""Most characters of a completion that are shown."""
BYTES_PER_TOKEN = 40  # of a completion, in memory
Order = Literal["drawn", "lowest", "highest"]
Divergences = dict[tuple[str, int], float]
"""Prompt's id and seed of a completion -> log probability, student minus teacher, in nats per token."""


class RolloutsQuery(BaseModel):
    """Which rollout to show, and how."""

    step: int = Field(default=0, ge=0, description="An update that learned from the rollout; 0: the last one")
    order: Order = "drawn"
    find: str = Field(default="", max_length=500)
    sheet: int = Field(default=1, description="Page of groups, from 1")


def run_rollouts(site: Site, name: str, query: Annotated[RolloutsQuery, Query()]) -> dict[str, Any]:
    """Groups of the rollout that an update learned from, and the neighbouring rollouts."""
    run = site.folder.path(name)
    found = around(site.folder, run, name, query.step)
    step = query.step or found["last"]
    algorithm = site.folder.object(run / CONFIG).get("algorithm", {})
    updates = algorithm.get("updates", 1) if isinstance(algorithm, dict) else 1
    if type(updates) is int and updates > 0:
        # A rollout has the number of its first update. With three per rollout, 1 to 3 share the first one.
        step -= (step - 1) % updates
    return around(site.folder, run, name, step) | {"rollout": rollout_page(site.folder, run, step, query)}


def around(folder: Folder, run: Path, name: str, step: int) -> dict[str, Any]:
    """The first and the last rollout, and those before and after ``step``. Raises `RequestError` without any."""
    steps = rollout_steps(run)
    if not steps:
        raise RequestError(f"{name} has no rollouts", "a run that learned from its own completions", "")
    teacher = ""
    if (run / TEACHER).is_file():
        origin = folder.object(run / TEACHER)
        teacher = str(origin.get("run") or origin.get("id") or "an unnamed teacher")
    return {"run": name, "first": steps[0], "last": steps[-1], "count": len(steps), "teacher": teacher,
            "before": max((other for other in steps if other < step), default=None),
            "after": min((other for other in steps if other > step), default=None), "rollout": None}


def rollout_page(folder: Folder, run: Path, step: int, query: RolloutsQuery) -> dict[str, Any]:
    """A page of the groups that contain the text of the query. Raises `RecordError`, or `RequestError` without one."""
    rollout, divergences = _read(folder, run, step)
    text = query.find.casefold()

    def matches(group: Group) -> bool:
        item = group.prompt.item
        return any(text in part.casefold() for part in (item.id, item.prompt, item.expected_answer))

    def divergence(group: Group) -> float:
        return fmean(divergences.get((group.prompt.item.id, sample.seed), 0.0) for sample in group.samples)

    groups = [group for group in rollout.groups if matches(group)]
    if query.order != "drawn":
        # With a teacher all rewards are 0.
        groups.sort(key=divergence if divergences else mean_reward, reverse=query.order == "highest")
    shown, pages = paged(groups, query.sheet, max(1, COMPLETIONS_A_PAGE // len(rollout.groups[0].samples)))
    return {"step": step, "total": len(rollout.groups), "found": len(groups), "page": query.sheet, "pages": pages,
            "mean": fmean(sample.reward for _, sample in rollout.all_samples),
            "rows": _rows(folder, run, shown, divergences)}


def _read(folder: Folder, run: Path, step: int) -> tuple[Rollout, Divergences]:
    """A rollout without its log probabilities, which take most of the memory, and divergences from the teacher."""
    def read() -> Parsed[tuple[Rollout, Divergences]]:
        rollout = read_rollout(run, step)
        light = replace(rollout, trainer_log_probs=(), reference_log_probs=(), groups=tuple(
            replace(group, samples=tuple(replace(sample, completion=replace(sample.completion, log_probs=[]))
                                         for sample in group.samples)) for group in rollout.groups))
        tokens = sum(len(sample.completion.tokens) for _, sample in rollout.all_samples)
        return Parsed(BYTES_PER_TOKEN * tokens, (light, _divergences(rollout)))

    return folder.cache.get("rollout", [run / rollout_file(step)], read).value


def _divergences(rollout: Rollout) -> Divergences:
    # In a run with rewards the reference is not a teacher.
    if not rollout.reference_log_probs or rollout.groups[0].is_rewarded:
        return {}
    divergences = {}
    for (prompt, sample), teacher in zip(rollout.trained_samples, rollout.reference_log_probs, strict=True):
        student = np.asarray(sample.completion.log_probs, np.float64)
        divergences[prompt.item.id, sample.seed] = float(np.mean(student - teacher))
    return divergences


def _weights(run: Path) -> dict[str, float]:
    try:
        return {str(entry["name"]): float(entry["weight"]) for entry in read_json(run / REWARDS)}
    except (OSError, RecordError, ValueError, KeyError, TypeError):
        return {}


def _rows(folder: Folder, run: Path, groups: Sequence[Group], divergences: Divergences) -> list[dict[str, Any]]:
    weights, path = _weights(run), run / TOKENIZER
    try:
        tokenizer = folder.cache.get("tokenizer", [path / "tokenizer.json"], lambda: Tokenizer.load(path))
    except RequestError as error:
        raise RecordError(f"completions cannot be read without the run's tokenizer: {error.given[:120]}") from None

    def completion(sample: Sample, divergence: float | None) -> dict[str, Any]:
        text, end = texts(sample, tokenizer)
        return {"text": text[:MAX_CHARACTERS_SHOWN], "more": max(0, len(text) - MAX_CHARACTERS_SHOWN),
                "reward": sample.reward, "advantage": sample.advantage, "divergence": divergence,
                "parts": [{"name": name, "value": value, "weight": weights.get(name)}
                          for name, value in sample.rewards.items()],
                "tokens": len(sample.completion.tokens), "end": end}

    return [{"id": group.prompt.item.id, "prompt": visible(group.prompt.item.prompt),
             "expected": visible(group.prompt.item.expected_answer), "epoch": group.epoch, "learned": group.kept,
             "equal": group.is_rewarded and not group.has_spread, "mean": mean_reward(group),
             "completions": [completion(sample, divergences.get((group.prompt.item.id, sample.seed)))
                             for sample in group.samples]} for group in groups]
