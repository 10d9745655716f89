"""Metrics of runs that learn from rewards, a teacher or pairs: figures, meaning, and bad signs."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

MAX_PARTS = 16
"""Further lines of a figure, such as the parts of a reward."""


@dataclass(frozen=True)
class Panel:
    """Numbers that are drawn in one figure."""

    key: str
    title: str
    unit: str
    lines: Mapping[str, str]
    """Keys in `numbers` and their names; the first one is used where only one fits."""
    sentence: str
    """Its meaning, and signs of a problem."""
    prefix: str = ""
    """Prefix of further numbers that become lines."""
    log: bool = False

    def lines_of(self, keys: Collection[str]) -> dict[str, str]:
        """The panel's lines among the numbers of a run, with at most `MAX_PARTS` further ones."""
        more = sorted(key for key in keys if self.prefix and key.startswith(self.prefix) and key not in KNOWN_METRICS)
        return {key: name for key, name in self.lines.items() if key in keys} | {
            key: key.removeprefix(self.prefix) for key in more[:MAX_PARTS]}


RARE = ("groups_left_out", "empty", "kl_behavior")
"""Lines that are left out if they are always 0."""
PANELS = (
    Panel("reward", "Reward", "", {"reward": "reward", "reward_deviation": "spread"},
        "What the completions of a rollout earned: their mean, the means of its parts before weights, and the spread "
        "(standard deviation) over all of them. The mean should rise over many steps. Bad signs: a mean that falls "
        "or does not move, and a spread near 0, which leaves nothing to compare.", prefix="reward_"),
    Panel("teacher", "Divergence from the teacher", "nats per token", {"kl_teacher": "divergence"},
        "How much likelier the sampled tokens were to the student than to its teacher: the mean over a rollout "
        "(reverse Kullback-Leibler). It should fall over many steps, towards 0. Bad signs: it does not move, or "
        "falls while completions get empty or the held-out score falls."),
    Panel("outside", "Held-out score and hidden rewards", "", {"held_out_score": "held-out score"},
        "Measured at intervals and not learned from: the share of correct answers on held-out items, and rewards "
        "that no update sees. They should rise with the reward. Bad sign: a reward that rises while these do not: "
        "the model exploits the reward.", prefix="hidden_"),
    Panel("groups", "Groups of completions", "share", {
        "groups_mixed": "some right", "groups_all_wrong": "all wrong", "groups_all_right": "all right",
        "groups_without_spread": "equal rewards", "groups_left_out": "left out"},
        "Whether the completions of one prompt were all wrong, all correct, or mixed, by the first reward. A group "
        "whose rewards are equal teaches nothing. Bad sign: most groups have equal rewards, because the prompts are "
        "too hard or too easy."),
    Panel("lengths", "Length of completions", "tokens", {
        "completion_tokens": "mean", "completion_tokens_least": "shortest", "completion_tokens_most": "longest"},
        "Tokens per completion without its end token. Bad signs: lengths that grow without a growing reward, or that "
        "collapse to a few tokens."),
    Panel("ends", "Completions cut off", "share", {"truncated": "cut off", "empty": "empty"},
        "The share that reached algorithm.max_new_tokens, or that has no token. Bad sign: a growing share, because "
        "truncated completions seldom earn anything."),
    Panel("entropy", "Entropy", "nats per token", {"entropy": "entropy"},
        "How unsure the model is of its next token. It falls slowly as the model learns. Bad signs: near 0 (all "
        "completions of a prompt are the same) or a sharp rise (the text falls apart)."),
    Panel("mismatch", "Mismatch of sampler and trainer", "nats per token", {
        "mismatch": "mean", "mismatch_most": "most"},
        "How far the log probabilities of the sampled tokens differ between the sampler and the model in training, "
        "which have the same weights, so that only arithmetic may differ. Bad sign: a growing mean; above "
        "algorithm.max_mismatch the run stops.", log=True),
    Panel("clip_fraction", "Clip fraction", "share of tokens", {"clip_fraction": "clip fraction"},
        "The share of tokens whose probability moved beyond the algorithm's bound. With one update per rollout it is "
        "0. Bad sign: a large share, because the rollout is then too old for its updates."),
    Panel("kl_behavior", "Distance from the sampler", "nats per token", {"kl_behavior": "divergence"},
        "How far the model has moved from the one that sampled the completions (Kullback-Leibler). With one update "
        "per rollout it is 0. Bad sign: a sharp rise."),
    Panel("preference_loss", "Preference loss", "", {"preference_loss": "loss"},
        "What an update minimizes: the negative log likelihood that the chosen completion of each pair is preferred, "
        "which begins at ln 2 = 0.693 (DPO), or a squared distance (IPO). It is not a token loss. It should fall. "
        "Bad sign: near 0 after a few steps, because the pairs have nothing left to teach."),
    Panel("margin", "Implied rewards of pairs", "", {
        "margin": "margin", "chosen_reward": "chosen", "rejected_reward": "rejected"},
        "How much likelier completions became than under the reference, times beta: for the chosen and the rejected "
        "ones of a step, and the difference. The margin should rise. Bad sign: the chosen line falls far below 0, so "
        "that the margin only shows that the rejected ones fell farther."),
    Panel("accuracy", "Accuracy on pairs", "share", {"accuracy": "accuracy"},
        "The share of a step's pairs whose chosen completion has the larger implied reward. It begins at chance. Bad "
        "signs: it stays there, or is 1 at once, because something else separates the two, such as their lengths."),
    Panel("pair_log_probs", "Log probability of completions", "nats", {
        "chosen_log_prob": "chosen", "rejected_log_prob": "rejected"},
        "Of whole completions, averaged over a step's pairs; longer ones are less likely, so that steps differ. Bad "
        "sign: both fall together over many steps, and the model gets worse at writing either."),
    Panel("times", "Seconds of a step", "s", {"drawing_seconds": "drawing", "updating_seconds": "updating"},
        "Sampling and rewarding completions, and the update itself. Bad sign: sampling that takes longer and longer "
        "because completions grow."),
)
"""Panels in their order on the page."""
KNOWN_METRICS = frozenset(key for panel in PANELS for key in panel.lines) | {
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
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
