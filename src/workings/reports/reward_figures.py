"""Curves of runs that learn from rewards, and examples from their first and last rollouts."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean

from workings.errors import RecordError, RequestError
from workings.models.tokenizer import Tokenizer
from workings.record.layout import TOKENIZER
from workings.reports.figures import SMOOTHED, SMOOTHING_SHARE, LossFigure, line_figure, smoothed_curves
from workings.reports.gather import RunView
from workings.reports.line_chart import Curve
from workings.reports.reinforcement import PANELS, Panel, numbers
from workings.reports.rollouts import mean_reward, read_rollout, rollout_steps, texts, visible
from workings.rollouts.rollout import Group, Sample

REPORTED_PANELS = ("reward", "teacher", "outside", "groups", "lengths", "mismatch", "preference_loss", "margin",
            "accuracy", "pair_log_probs")
"""Figures of a report; the page of `workings ui` has all of them."""
MAX_CHARACTERS = 4_000
"""Maximum characters shown of a completion; the record has all of it."""
_COLORS = 5


@dataclass(frozen=True, kw_only=True)
class ShownCompletion:
    """The best or the worst completion of a group."""

    title: str
    text: str
    more: int
    """Characters that were left out."""
    reward: str
    """The rewards as text; empty without rewards."""
    advantage: str
    about: str
    """Length and end of the completion."""


@dataclass(frozen=True, kw_only=True)
class ShownGroup:
    """One prompt, and the completions that earned most and least."""

    id: str
    prompt: str
    about: str
    completions: list[ShownCompletion]


@dataclass(frozen=True, kw_only=True)
class ShownRollout:
    """Some groups of one rollout."""

    title: str
    about: str
    groups: list[ShownGroup] = field(default_factory=list)


def reward_figures(views: Sequence[RunView]) -> list[LossFigure]:
    """Figures of the runs that learned from rewards, if any.

    One run has all lines of a figure; several runs have one line each.
    """
    curves = [(view, [(float(line["step"]), numbers(line)) for line in view.lines])
             for view in views if view.uses_rewards]
    figures = []
    for panel in (panel for panel in PANELS if panel.key in REPORTED_PANELS):
        lines = _lines(panel, curves)
        # Without a line the figure would be an empty frame.
        if lines:
            figures.append(_figure(panel, lines))
    return figures


def reward_samples(views: Sequence[RunView]) -> list[ShownRollout]:
    """Groups of the first and the last rollout of each run; an unreadable file is reported."""
    rollouts = []
    for view in views:
        steps = rollout_steps(view.path)
        for step in dict.fromkeys([*steps[:1], *steps[-1:]]):
            title = f"Update {step}" if len(views) == 1 else f"{view.name}, update {step}"
            try:
                rollouts.append(_rollout(view, step, title))
            # A damaged example does not stop the report.
            except RecordError as error:
                rollouts.append(ShownRollout(title=title, about=f"It is not shown: {error}."))
            except RequestError as error:
                rollouts.append(ShownRollout(title=title, about=f"It is not shown: {error.given}."))
    return rollouts


def _lines(panel: Panel, points_of_runs: Sequence[tuple[RunView, list[tuple[float, dict[str, float]]]]]) -> list[Curve]:
    """The panel's curves, those without points left out."""
    lines: list[Curve] = []
    alone = len(points_of_runs) == 1
    for view, rows in points_of_runs:
        keys = panel.lines_of(key for _, values in rows for key in values)
        for number, line in enumerate(keys if alone else keys[:1]):
            points = [(step, values[line.key]) for step, values in rows if line.key in values]
            # A single part with weight 1 equals the reward.
            same = line not in panel.lines and lines and points == lines[0].points
            if points and not same and not (line.rare and not any(value for _, value in points)):
                lines.append(Curve(name=line.name if alone else view.name, points=points,
                                   color=number % _COLORS if alone else view.color))
    return lines


def _figure(panel: Panel, lines: Sequence[Curve]) -> LossFigure:
    # A value of 0 has no place on a logarithmic axis.
    log = panel.log and any(value > 0 for curve in lines for _, value in curve.points)
    span = max(len(curve.points) for curve in lines) // SMOOTHING_SHARE if panel.key == "reward" else 1
    # No room for a unit next to powers of ten: put it in the heading.
    return LossFigure(
        heading=f"{panel.title}, {panel.unit} (log scale)" if log else panel.title,
        caption=panel.sentence + (SMOOTHED if span > 1 else ""),
        drawn=line_figure(panel.title, lines, smoothed_curves(lines, span), log=log,
                          y_label="" if log else panel.unit or panel.title.casefold()))


def _rollout(view: RunView, step: int, title: str) -> ShownRollout:
    rollout = read_rollout(view.path, step)
    tokenizer = Tokenizer.load(view.path / TOKENIZER)
    ordered = sorted(rollout.groups, key=mean_reward)
    # The hardest, the median and the easiest prompt, to avoid cherry-picking.
    # By identity, because with one or two groups some of these are the same.
    chosen = {id(group): group for group in (ordered[0], ordered[len(ordered) // 2], ordered[-1])}
    groups = [ShownGroup(
        id=group.prompt.item.id, prompt=visible(group.prompt.item.prompt),
        completions=_best_and_worst(group, tokenizer),
        about=f"expected {visible(group.prompt.item.expected_answer)} · "
              + (f"mean reward {mean_reward(group):.3g} over " if group.is_rewarded else "")
              + f"{len(group.samples)} completions · {_fate(group)}") for group in chosen.values()]
    mean = f", mean reward {fmean(sample.reward for _, sample in rollout.all_samples):.3g}"
    return ShownRollout(title=title, groups=groups, about=f"{len(rollout.groups)} groups"
                        + (mean if ordered[0].is_rewarded else "") + ".")


def _fate(group: Group) -> str:
    if not group.kept:
        return "not learned from"
    return "equal rewards: teaches nothing" if group.is_rewarded and not group.has_spread else "learned from"


def _best_and_worst(group: Group, tokenizer: Tokenizer) -> list[ShownCompletion]:
    if not group.has_spread:
        title = "One of several with equal reward" if group.is_rewarded else "One completion"
        return [_completion(title, group.samples[0], tokenizer)]
    best = max(group.samples, key=lambda sample: sample.reward)
    worst = min(group.samples, key=lambda sample: sample.reward)
    return [_completion("Highest reward", best, tokenizer), _completion("Lowest reward", worst, tokenizer)]


def _completion(title: str, sample: Sample, tokenizer: Tokenizer) -> ShownCompletion:
    text, end = texts(sample, tokenizer)
    parts = ", ".join(f"{name} {value:.4g}" for name, value in sample.rewards.items())
    return ShownCompletion(
        title=title, text=text[:MAX_CHARACTERS], more=max(0, len(text) - MAX_CHARACTERS),
        reward=f"{sample.reward:.4g}" if sample.rewards else "",
        advantage=f"{sample.advantage:+.3g}" if sample.advantage else "0",
        about=(f"{parts} · " if parts else "") + f"{len(sample.completion.tokens)} tokens, "
              + (f"then {end}" if end else "cut off"))
