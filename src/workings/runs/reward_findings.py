"""What rewards pay for besides the right answer: pure arithmetic on what probes, samples and right answers earned.

A probe that is wrong on a prompt must earn less than the right answer there, and no more than the median of the model's
own samples: else the way to more reward leads past the right answer. A probe that is right is a clumsy right answer and
must not earn more than the plain one. What a probe does rightly is taken out of a comparison on both sides.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from statistics import median

from workings.config.algorithms.base import mean

RIGHTLY: Mapping[str, frozenset[str]] = {"steps with a wrong answer": frozenset({"form", "steps"})}
"""Rewards that a wrong probe earns for what it really does: its form is kept and its steps hold."""
SHORTNESS = frozenset({"length", "overlong"})
"""Rewards that say nothing of an answer; left out where right answers are compared."""
NOT_JUDGED = "answer without steps"
"""A right answer in the right form is what the reward `answer` asks for, so this probe is shown and never refused."""
# Sums of weights times values that should be equal differ by less than this.
ROUNDING = 1e-9


@dataclass(frozen=True, kw_only=True)
class Earned:
    """What one text earned."""

    rewards: Mapping[str, float]
    """Weight times value of each reward, by name."""
    right: bool
    """Whether the scorer `answer` finds the right answer in it."""
    tokens: int
    truncated: bool

    @property
    def reward(self) -> float:
        """The sum."""
        return self.without(frozenset())

    def without(self, names: frozenset[str]) -> float:
        """The sum without some rewards."""
        return fsum(value for name, value in self.rewards.items() if name not in names)


@dataclass(frozen=True, kw_only=True)
class Tried:
    """One prompt: what its probes, its right answer and the model's samples earned."""

    prompt: str
    """Its id."""
    right_answer: Earned
    """The expected answer in the form, behind worked steps where they are known."""
    probes: Mapping[str, Earned]
    samples: tuple[Earned, ...] = ()
    """One drawn group; empty where no model was asked."""

    def middle(self, without: frozenset[str] = frozenset()) -> float:
        """Reward of the model's median sample."""
        return median(sample.without(without) for sample in self.samples)

    def beaten(self, probe: str) -> bool:
        """Whether a probe earns more here than what it is held against; see `reference`."""
        return self.probes[probe].without(left_out := rightly(probe)) > self.reference(left_out) + ROUNDING

    def reference(self, without: frozenset[str]) -> float:
        """The model's median sample, or the right answer where no model was asked."""
        return self.middle(without) if self.samples else self.right_answer.without(without)


def rightly(probe: str) -> frozenset[str]:
    """Rewards of a wrong probe that are not counted beside the model's samples."""
    return RIGHTLY.get(probe, frozenset())


def refusals(tried: Sequence[Tried]) -> list[str]:
    """A sentence for each probe that earns what it should not: probe, reward, and by how much."""
    said: list[str] = []
    for probe in tried[0].probes:
        if probe == NOT_JUDGED:
            continue
        has = [each for each in tried if probe in each.probes]
        wrong = [each for each in has if not each.probes[probe].right]
        right = [each for each in has if each.probes[probe].right]
        # Named once: a probe that beats the model's samples is not held against the right answers as well.
        said += _beside_the_model(probe, wrong) or _beside_the_right_answer(probe, _with_an_answer(wrong))
        # The other probes are right by chance, and what they earn then says nothing of them.
        if probe in ("very long", "answer repeated"):
            said += _right_but_clumsy(probe, _with_an_answer(right))
    return said


def _with_an_answer(tried: Sequence[Tried]) -> list[Tried]:
    """Those whose right answer is found again: where it was cut off, nothing can be held against it."""
    return [each for each in tried if each.right_answer.right]


def _beside_the_model(probe: str, wrong: Sequence[Tried]) -> list[str]:
    if not wrong or not wrong[0].samples:
        return []
    left_out = rightly(probe)
    earned = mean([each.probes[probe].without(left_out) for each in wrong])
    middle = mean([each.middle(left_out) for each in wrong])
    if earned <= middle + ROUNDING:
        return []
    # Of which sample a reward's median is does not matter for a name: the means say where the difference comes from.
    name = _largest(wrong, left_out, probe, lambda each, reward: mean([x.rewards[reward] for x in each.samples]))
    counted = sorted(left_out & set(wrong[0].right_answer.rewards))
    beside = f" ({' and '.join(counted)} not counted: it earns them rightly)" if counted else ""
    return [f"the probe `{probe}` is wrong and earns {earned:.3g}, and the model's median sample {middle:.3g}: "
            f"{earned - middle:.3g} more, most of it by the reward {name}{beside}"]


def _beside_the_right_answer(probe: str, wrong: Sequence[Tried]) -> list[str]:
    if not wrong:
        return []
    earned = mean([each.probes[probe].reward for each in wrong])
    solved = mean([each.right_answer.reward for each in wrong])
    if earned < solved - ROUNDING:
        return []
    more = f"{earned - solved:.3g} more" if earned > solved + ROUNDING else "as much"
    name = _largest(wrong, frozenset(), probe, lambda each, reward: each.right_answer.rewards[reward])
    return [f"the probe `{probe}` is wrong and earns {earned:.3g}, and the right answer {solved:.3g}: {more}, most of "
            f"it by the reward {name}"]


def _right_but_clumsy(probe: str, right: Sequence[Tried]) -> list[str]:
    if not right:
        return []
    earned = mean([each.probes[probe].without(SHORTNESS) for each in right])
    solved = mean([each.right_answer.without(SHORTNESS) for each in right])
    if earned <= solved + ROUNDING:
        return []
    name = _largest(right, SHORTNESS, probe, lambda each, reward: each.right_answer.rewards[reward])
    return [f"the probe `{probe}` earns {earned:.3g}, and the plain right answer {solved:.3g}: {earned - solved:.3g} "
            f"more, most of it by the reward {name}"]


def _largest(tried: Sequence[Tried], left_out: frozenset[str], probe: str,
             other: Callable[[Tried, str], float]) -> str:
    """Name of the reward by which a probe gains most on something else; where it gains by none, that it loses least."""
    gains = {name: mean([each.probes[probe].rewards[name] - other(each, name) for each in tried])
             for name in tried[0].right_answer.rewards if name not in left_out}
    return max(gains, key=lambda name: gains[name])


def warnings(tried: Sequence[Tried], max_new_tokens: int) -> list[str]:
    """What makes learning slow or impossible, each with what to do."""
    said: list[str] = []
    samples = [sample for each in tried for sample in each.samples]
    equal = without_spread(tried)
    if samples and 2 * equal > len(tried):
        said.append(f"{equal} of {len(tried)} groups have equal rewards: "
                    f"{'nothing' if equal == len(tried) else 'little'} to learn; {_what_to_do(samples)}")
    cut = sum(sample.truncated for sample in samples)
    if samples and 2 * cut >= len(samples):
        said.append(f"{cut} of {len(samples)} completions were cut off at algorithm.max_new_tokens "
                    f"({max_new_tokens}): a larger one, or first a model that ends its answers")
    lost = [each.prompt for each in tried if not each.right_answer.right]
    if lost:
        said.append(f"the expected answer of {len(lost)} of {len(tried)} prompts ({', '.join(lost[:3])}) is not found "
                    "again when it is written in the form of data.reasoning: a larger algorithm.max_new_tokens, or "
                    "other expected answers")
    return said


def without_spread(tried: Sequence[Tried]) -> int:
    """Groups of samples whose rewards are all equal."""
    return sum(len({sample.reward for sample in each.samples}) == 1 for each in tried)


def _what_to_do(samples: Sequence[Earned]) -> str:
    if not any(sample.right for sample in samples):
        return "no sample is right: easier prompts, or imitate traces first (algorithm.name=sft)"
    if all(sample.right for sample in samples):
        return "every sample is right: harder prompts"
    return "a larger algorithm.group, algorithm.name=dapo, or a reward that tells more apart"
