"""Rollouts of a run as the page shows them: a rollout's groups a page at a time, and a prompt over the whole run."""

from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Literal, TypeVar

from pydantic import BaseModel, Field

from workings.errors import RecordError, RequestError
from workings.record.canonical import read_json
from workings.record.layout import REWARDS
from workings.reports.rollouts import mean_reward, rollout_steps, texts, visible
from workings.rollouts.rollout import Group as DrawnGroup
from workings.rollouts.rollout import Sample
from workings.ui.requests import paged
from workings.ui.rollout_reader import RolloutReader

COMPLETIONS_A_PAGE = 96
"""Completions of one page: whole groups, at least one of them."""
MAX_CHARACTERS_SHOWN = 1_500
"""Characters of a completion among the groups of a rollout; a prompt's own page has more."""
CUT_ALONE = 20_000
Order = Literal["drawn", "lowest", "highest"]
T = TypeVar("T")


class RewardPart(BaseModel):
    """The value of one reward for a completion."""

    name: str
    value: float
    weight: float | None = Field(default=None, description="Left out where the record does not say it")


class PageCompletion(BaseModel):
    """One completion."""

    text: str = Field(description="Invisible control characters are written out")
    more: int = Field(default=0, description="Characters that were cut off here")
    reward: float
    parts: list[RewardPart]
    advantage: float = Field(description="How much better it was than its group")
    divergence: float | None = Field(default=None, description="Of a completion that a teacher judged: how much "
                                     "likelier its tokens were to the student, nats a token")
    tokens: int
    end: str = Field(description="The token that ended it; empty: it was cut off")


class PageGroup(BaseModel):
    """The completions of one prompt."""

    id: str
    prompt: str
    expected: str
    step: int
    epoch: int
    learned: bool = Field(description="Whether updates learned from it")
    equal: bool = Field(description="Whether all its rewards are the same, so that every advantage is 0")
    mean: float
    completions: list[PageCompletion]


class RolloutPage(BaseModel):
    """Groups of one rollout, a page of them."""

    step: int
    total: int
    found: int
    page: int
    pages: int
    mean: float = Field(description="Mean reward of all its completions")
    rows: list[PageGroup]


class PromptRollout(BaseModel):
    """A rollout in which a prompt was drawn."""

    step: int
    epoch: int
    learned: bool
    mean: float
    lowest: float
    highest: float
    tokens: float = Field(description="Mean length of its completions")
    count: int


class PromptHistory(BaseModel):
    """A prompt over the run."""

    id: str
    prompt: str
    expected: str
    turns: list[PromptRollout]
    unread: list[str] = Field(description="Rollouts that could not be read, and why")
    page: int
    pages: int
    rows: list[PageGroup]


class Rollouts(BaseModel):
    """Completions of a run: those of a rollout or, if a prompt was chosen, those of that prompt over the run."""

    run: str
    first: int
    last: int
    before: int | None = Field(default=None, description="First update of the rollout before")
    after: int | None = Field(default=None, description="First update of the next rollout")
    count: int
    teacher: str = Field(default="", description="Who judged every token, without rewards; empty: rewards did")
    rollout: RolloutPage | None = None
    history: PromptHistory | None = None


def rollout_page(reader: RolloutReader, run: Path, step: int, *, order: Order, find: str, page: int) -> RolloutPage:
    """Groups of a rollout whose id, question or expected answer holds a text.

    Raises:
        RecordError: the rollout is missing or damaged.
        RequestError: a page that does not exist.
    """
    # `casefold`, so that a search finds `STRASSE` for `straße`.
    rollout, folded_text = reader.rollout(run, step), find.casefold()
    groups = [group for group in rollout.groups if not folded_text or any(folded_text in text.casefold() for text in (
        group.prompt.item.id, group.prompt.item.prompt, group.prompt.item.expected_answer))]
    if order != "drawn":
        divergences = reader.divergences(run, step)
        # Where a teacher judges, rewards are all 0 and the divergence orders the groups.
        groups.sort(key=(lambda group: fmean(divergences.get((group.prompt.item.id, sample.seed), 0.0)
                                             for sample in group.samples)) if divergences else mean_reward,
                    reverse=order == "highest")
    shown, pages = paged(groups, page, max(1, COMPLETIONS_A_PAGE // len(rollout.groups[0].samples)))
    write = _writer(reader, run, MAX_CHARACTERS_SHOWN)
    return RolloutPage(step=step, total=len(rollout.groups), found=len(groups), page=page, pages=pages,
                       mean=fmean(sample.reward for _, sample in rollout.all_samples),
                       rows=[write(group, step) for group in shown])


def prompt_history(reader: RolloutReader, run: Path, prompt: str, *, page: int) -> PromptHistory:
    """Every rollout in which a prompt was drawn, and a page of what was drawn there.

    Raises:
        RequestError: no rollout of this run drew it, or a page that does not exist.
    """
    turns, unread = [], []
    for step in rollout_steps(run):
        try:
            turns += [(step, outline) for outline in reader.outline(run, step) if outline.id == prompt]
        # One damaged file hides no other.
        except RecordError as error:
            unread.append(str(error))
    if not turns:
        raise RequestError(f"prompt {prompt[:80]!r}" + (f" ({'; '.join(unread[:3])})" if unread else ""),
                           "the id of a prompt that a rollout of this run drew", "")
    # A prompt may be drawn twice in one rollout, where this is larger than an epoch; its file is read once.
    steps = list(dict.fromkeys(step for step, _ in turns))
    # Half as many, because a completion is shown longer on a prompt's own page.
    shown, pages = paged(steps, page, max(1, COMPLETIONS_A_PAGE // len(turns[0][1].rewards) // 2))
    write = _writer(reader, run, CUT_ALONE)
    rows: list[PageGroup] = []
    for step in shown:
        try:
            rows += [write(group, step) for group in reader.rollout(run, step).groups if group.prompt.item.id == prompt]
        except RecordError as error:
            unread.append(str(error))
    return PromptHistory(
        id=prompt, prompt=rows[0].prompt if rows else "", expected=rows[0].expected if rows else "", unread=unread,
        page=page, pages=pages, rows=rows,
        turns=[PromptRollout(step=step, epoch=turn.epoch, learned=turn.kept, mean=fmean(turn.rewards),
                          lowest=min(turn.rewards), highest=max(turn.rewards), tokens=fmean(turn.lengths),
                          count=len(turn.rewards))
               for step, turn in turns])


def _weights(run: Path) -> dict[str, float]:
    try:
        return {str(entry["name"]): float(entry["weight"]) for entry in read_json(run / REWARDS)}
    # Without it the values are there alone.
    except (OSError, RecordError, ValueError, KeyError, TypeError):
        return {}


def _writer(reader: RolloutReader, run: Path, most: int) -> Callable[[DrawnGroup, int], PageGroup]:
    """Makes groups that people can read; a completion is cut after so many characters."""
    weights = _weights(run)
    try:
        tokenizer = reader.tokenizer(run)
    except RequestError as error:
        raise RecordError(f"completions cannot be read without the run's tokenizer: {error.given[:120]}") from None

    def completion(sample: Sample, divergence: float | None) -> PageCompletion:
        # Decoded here and not when the rollout is read: a page shows a few of thousands.
        text, end = texts(sample, tokenizer)
        return PageCompletion(text=text[:most], more=max(0, len(text) - most), reward=sample.reward, end=end,
                               parts=[RewardPart(name=name, value=value, weight=weights.get(name))
                                      for name, value in sample.rewards.items()],
                               advantage=sample.advantage, divergence=divergence, tokens=len(sample.completion.tokens))

    def group(outline: DrawnGroup, step: int) -> PageGroup:
        # Keyed by prompt and seed: a prompt has several completions, and each has its own seed.
        item, divergences = outline.prompt.item, reader.divergences(run, step)
        return PageGroup(id=item.id, prompt=visible(item.prompt), expected=visible(item.expected_answer), step=step,
                          epoch=outline.epoch, learned=outline.kept,
                          equal=outline.is_rewarded and not outline.has_spread,
                          mean=mean_reward(outline),
                          completions=[completion(sample, divergences.get((item.id, sample.seed)))
                                       for sample in outline.samples])

    return group
