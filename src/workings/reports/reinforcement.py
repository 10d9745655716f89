"""Metrics of runs that learn from rewards, a teacher or pairs: figures, meaning, and bad signs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

MAX_PARTS = 16
"""Further lines of a figure, such as the parts of a reward."""


@dataclass(frozen=True, kw_only=True)
class PanelLine:
    """One line of a figure."""

    key: str
    """Key in `numbers`."""
    name: str
    """Name in the figure."""
    rare: bool = False
    """Whether to leave it out if it is always 0."""


@dataclass(frozen=True, kw_only=True)
class Panel:
    """Numbers that are drawn in one figure."""

    key: str
    title: str
    unit: str
    sentence: str
    """Its meaning, and signs of a problem."""
    lines: tuple[PanelLine, ...]
    """The first one is used where only one fits."""
    prefix: str = ""
    """Prefix of further numbers that become lines."""
    log: bool = False
    """Whether the axis is logarithmic: the numbers differ by orders of magnitude."""

    def lines_of(self, keys: Iterable[str]) -> list[PanelLine]:
        """The panel's lines among the numbers of a run, with at most `MAX_PARTS` further ones."""
        present = set(keys)
        more = sorted(key for key in present if self.prefix and key.startswith(self.prefix)
                      and key not in KNOWN_METRICS)
        return [line for line in self.lines if line.key in present] + [
            PanelLine(key=key, name=key.removeprefix(self.prefix)) for key in more[:MAX_PARTS]]


PANELS = (
    Panel(key="reward", title="Reward", unit="", prefix="reward_", lines=(
        PanelLine(key="reward", name="reward"), PanelLine(key="reward_deviation", name="spread")),
        sentence="What the completions of a rollout earned: their mean, the means of its parts before weights, and the "
                 "spread (standard deviation) over all of them. The mean should rise over many steps. Bad signs: a "
                 "mean that falls or does not move, and a spread near 0, which leaves nothing to compare."),
    Panel(key="teacher", title="Divergence from the teacher", unit="nats per token", lines=(
        PanelLine(key="kl_teacher", name="divergence"),),
        sentence="How much likelier the sampled tokens were to the student than to its teacher: the mean over a "
                 "rollout (reverse Kullback-Leibler). It should fall over many steps, towards 0. Bad signs: it does "
                 "not "
                 "move, or falls while completions get empty or the held-out score falls."),
    Panel(key="outside", title="Held-out score and hidden rewards", unit="", prefix="hidden_", lines=(
        PanelLine(key="held_out_score", name="held-out score"),),
        sentence="Measured at intervals and not learned from: the share of correct answers on held-out items, and "
                 "rewards that no update sees. They should rise with the reward. Bad sign: a reward that rises while "
                 "these do not: the model exploits the reward."),
    Panel(key="groups", title="Groups of completions", unit="share", lines=(
        PanelLine(key="groups_mixed", name="some right"), PanelLine(key="groups_all_wrong", name="all wrong"),
        PanelLine(key="groups_all_right", name="all right"),
        PanelLine(key="groups_without_spread", name="equal rewards"),
        PanelLine(key="groups_left_out", name="left out", rare=True)),
        sentence="Whether the completions of one prompt were all wrong, all correct, or mixed, by the first "
                 "reward. A group whose rewards are equal teaches nothing. Bad sign: most groups have equal rewards, "
                 "because the prompts are too hard or too easy."),
    Panel(key="lengths", title="Length of completions", unit="tokens", lines=(
        PanelLine(key="completion_tokens", name="mean"), PanelLine(key="completion_tokens_least", name="shortest"),
        PanelLine(key="completion_tokens_most", name="longest")),
        sentence="Tokens per completion without its end token. Bad signs: lengths that grow without a growing reward, "
                 "or that collapse to a few tokens."),
    Panel(key="ends", title="Completions cut off", unit="share", lines=(
        PanelLine(key="truncated", name="cut off"), PanelLine(key="empty", name="empty", rare=True)),
        sentence="The share that reached algorithm.max_new_tokens, or that has no token. "
                 "Bad sign: a growing share, because truncated completions seldom earn anything."),
    Panel(key="entropy", title="Entropy", unit="nats per token", lines=(PanelLine(key="entropy", name="entropy"),),
          sentence="How unsure the model is of its next token. It falls slowly as the model learns. Bad signs: near 0 "
                   "(all completions of a prompt are the same) or a sharp rise (the text falls apart)."),
    Panel(key="mismatch", title="Mismatch of sampler and trainer", unit="nats per token", log=True, lines=(
        PanelLine(key="mismatch", name="mean"), PanelLine(key="mismatch_most", name="most")),
        sentence="How far the log probabilities of the sampled tokens differ between the sampler and the model "
                 "in training, which have the same weights, so that only arithmetic may differ. Bad sign: a growing "
                 "mean; "
                 "above algorithm.max_mismatch the run stops."),
    Panel(key="clip_fraction", title="Clip fraction", unit="share of tokens", lines=(
        PanelLine(key="clip_fraction", name="clip fraction"),),
        sentence="The share of tokens whose probability moved beyond the algorithm's bound. With one update per "
                 "rollout it is 0. Bad sign: a large share, because the rollout is then too old for its updates."),
    Panel(key="kl_behavior", title="Distance from the sampler", unit="nats per token", lines=(
        PanelLine(key="kl_behavior", name="divergence", rare=True),),
        sentence="How far the model has moved from the one that sampled the completions (Kullback-Leibler). With one "
                 "update per rollout it is 0. Bad sign: a sharp rise."),
    Panel(key="preference_loss", title="Preference loss", unit="", lines=(
        PanelLine(key="preference_loss", name="loss"),),
        sentence="What an update minimizes: the negative log likelihood that the chosen completion of each pair is "
                 "preferred, which begins at ln 2 = 0.693 (DPO), or a squared distance (IPO). It is not a token loss. "
                 "It should fall. Bad sign: near 0 after a few steps, because the pairs have nothing left to teach."),
    Panel(key="margin", title="Implied rewards of pairs", unit="", lines=(
        PanelLine(key="margin", name="margin"), PanelLine(key="chosen_reward", name="chosen"),
        PanelLine(key="rejected_reward", name="rejected")),
        sentence="How much likelier completions became than under the reference, times beta: for the chosen and the "
                 "rejected ones of a step, and the difference. The margin should rise. Bad sign: the chosen line falls "
                 "far below 0, so that the margin only shows that the rejected ones fell farther."),
    Panel(key="accuracy", title="Accuracy on pairs", unit="share", lines=(PanelLine(key="accuracy", name="accuracy"),),
          sentence="The share of a step's pairs whose chosen completion has the larger implied reward. It begins at "
                   "chance. Bad signs: it stays there, or is 1 at once, because something else separates the two, "
                   "such as their lengths."),
    Panel(key="pair_log_probs", title="Log probability of completions", unit="nats", lines=(
        PanelLine(key="chosen_log_prob", name="chosen"), PanelLine(key="rejected_log_prob", name="rejected")),
        sentence="Of whole completions, averaged over a step's pairs; longer ones are less likely, so that steps "
        "differ. "
                 "Bad sign: both fall together over many steps, and the model gets worse at writing either."),
    Panel(key="times", title="Seconds of a step", unit="s", lines=(
        PanelLine(key="drawing_seconds", name="drawing"), PanelLine(key="updating_seconds", name="updating")),
        sentence="Sampling and rewarding completions, and the update itself. Bad sign: sampling that takes longer and "
                 "longer because completions grow."),
)
"""Panels in their order on the page."""
KNOWN_METRICS = frozenset(line.key for panel in PANELS for line in panel.lines) | {
    # Logged, but in no figure.
    "completions", "held_out_items", "mismatch_ratio"}
PREFIXES = tuple(panel.prefix for panel in PANELS if panel.prefix)
# Sorted, because a set's order differs between processes. `numbers` makes the two left out.
_LOGGED = tuple(sorted(KNOWN_METRICS - {"updating_seconds", "preference_loss"}))


def logged(line: Mapping[str, Any]) -> dict[str, float]:
    """Values of reinforcement or preference learning in a line of the log, unchanged; empty for other runs."""
    # A first update has a reward, each update on samples a clipped share, each on pairs a margin.
    if not {"reward", "clip_fraction", "margin"} & line.keys():
        return {}
    keys = [*_LOGGED, *(key for key in line if key.startswith(PREFIXES) and key not in KNOWN_METRICS)]
    return {key: value for key in keys if (value := _number(line.get(key))) is not None}


def numbers(line: Mapping[str, Any]) -> dict[str, float]:
    """The numbers that figures are drawn of: those of `logged`, and the loss of pairs or the update's own seconds."""
    values, loss, seconds = logged(line), _number(line.get("loss")), _number(line.get("seconds"))
    if "margin" in values:
        return values if loss is None else values | {"preference_loss": loss}
    if values and seconds is not None:
        # The loop counts sampling among the step's seconds.
        values["updating_seconds"] = seconds - values.get("drawing_seconds", 0.0)
    return values


def _number(value: Any) -> float | None:
    # A bool is an int.
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
