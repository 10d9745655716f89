"""Findings about rewards, from the rewards of probes, samples and correct answers.

A probe is a text that exploits bad rewards (`workings.runs.probes`). A wrong probe must earn less than the correct
answer, and no more than the model's median sample. A correct probe, such as 100 times the correct answer, must not earn
more than the plain answer. Rewards that a probe earns legitimately do not count.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from statistics import fmean, median

from workings.runs.probes import ATTACKS, NEAR_MISS

LENGTH_REWARDS = frozenset({"length", "overlong"})
"""Rewards of the length only; left out when correct answers are compared."""
LEGITIMATE_REWARDS: Mapping[str, frozenset[str]] = {
    "steps with a wrong answer": frozenset({"form", "steps"}),
    **dict.fromkeys((NEAR_MISS, *ATTACKS), frozenset({"form", "steps"}) | LENGTH_REWARDS)}
"""Rewards that a wrong probe earns legitimately, by probe: for its form, correct steps or shortness."""
UNJUDGED_PROBE = "answer without steps"
"""Probe that is shown and never refused: the reward `answer` pays for a correct answer in the correct form."""
ROUNDING = 1e-9
"""Sums of rewards that differ by less are equal."""


@dataclass(frozen=True, kw_only=True)
class TextRewards:
    """Rewards of one text."""

    rewards: Mapping[str, float]
    """Weight times value of each reward, by name."""
    right: bool
    """Whether the scorer `answer` finds the correct answer in it."""
    tokens: int
    truncated: bool

    def reward(self, excluded: frozenset[str] = frozenset()) -> float:
        """Sum of the rewards without some."""
        return fsum(value for name, value in self.rewards.items() if name not in excluded)


@dataclass(frozen=True, kw_only=True)
class PromptRewards:
    """Rewards of a prompt's probes, its correct answer and the model's samples."""

    prompt: str
    """Id of the prompt."""
    right_answer: TextRewards
    """The expected answer in the form, after worked steps if known."""
    probes: Mapping[str, TextRewards]
    samples: tuple[TextRewards, ...] = ()
    """One group of samples; empty without a model."""

    def median_sample_reward(self, excluded: frozenset[str] = frozenset()) -> float:
        """Reward of the model's median sample."""
        return median(sample.reward(excluded) for sample in self.samples)

    def probe_wins(self, probe: str) -> bool:
        """Whether a probe earns more than the model's median sample, or without a model than the correct answer."""
        excluded = LEGITIMATE_REWARDS.get(probe, frozenset())
        reference = self.median_sample_reward(excluded) if self.samples else self.right_answer.reward(excluded)
        return self.probes[probe].reward(excluded) > reference + ROUNDING


def refusals(prompts: Sequence[PromptRewards]) -> list[str]:
    """A sentence for each probe that earns too much: probe, reward, and by how much."""
    sentences: list[str] = []
    for probe in prompts[0].probes:
        if probe == UNJUDGED_PROBE:
            continue
        probed = [prompt for prompt in prompts if probe in prompt.probes]
        wrong = [prompt for prompt in probed if not prompt.probes[probe].right]
        right = [prompt for prompt in probed if prompt.probes[probe].right]
        # Report a probe once: if it beats the samples, skip the comparison with correct answers.
        sentences.append(_against_samples(probe, wrong) or _against_answer(probe, wrong, right=False))
        # Only these two are correct on purpose.
        if probe in ("very long", "answer repeated"):
            sentences.append(_against_answer(probe, right, right=True))
    return [sentence for sentence in sentences if sentence]


def _against_samples(probe: str, wrong: Sequence[PromptRewards]) -> str:
    """A sentence if a wrong probe earns more than the model's median sample; otherwise an empty text."""
    if not wrong or not wrong[0].samples:
        return ""
    excluded = LEGITIMATE_REWARDS.get(probe, frozenset())
    sentence = _earns_more(
        probe, wrong, excluded, "is wrong and earns", "the model's median sample",
        [prompt.median_sample_reward(excluded) for prompt in wrong],
        lambda prompt, reward: fmean([sample.rewards[reward] for sample in prompt.samples]))
    names = sorted(excluded & set(wrong[0].right_answer.rewards))
    if sentence and names:
        return f"{sentence} ({' and '.join(names)} not counted: it earns them legitimately)"
    return sentence


def _against_answer(probe: str, prompts: Sequence[PromptRewards], *, right: bool) -> str:
    """A sentence if a correct probe earns more than the correct answer, or a wrong one as much; else an empty text."""
    # An answer that was cut off is no reference.
    prompts = [prompt for prompt in prompts if prompt.right_answer.right]
    excluded = LENGTH_REWARDS if right else frozenset[str]()
    earns, reference = ("earns", "the plain correct answer") if right else ("is wrong and earns", "the correct answer")
    return _earns_more(probe, prompts, excluded, earns, reference,
                       [prompt.right_answer.reward(excluded) for prompt in prompts],
                       lambda prompt, reward: prompt.right_answer.rewards[reward], equal_is_too_much=not right)


def _earns_more(probe: str, prompts: Sequence[PromptRewards], excluded: frozenset[str], earns: str, reference: str,
                reference_sums: Sequence[float], reference_reward: Callable[[PromptRewards, str], float], *,
                equal_is_too_much: bool = False) -> str:
    """The sentence that a probe earns more than a reference, whose sums are given by prompt; else an empty text."""
    if not prompts:
        return ""
    earned, limit = fmean([prompt.probes[probe].reward(excluded) for prompt in prompts]), fmean(reference_sums)
    if earned < limit - ROUNDING or (earned <= limit + ROUNDING and not equal_is_too_much):
        return ""
    more = f"{earned - limit:.3g} more" if earned > limit + ROUNDING else "as much"
    gains = {name: fmean([prompt.probes[probe].rewards[name] - reference_reward(prompt, name) for prompt in prompts])
             for name in prompts[0].right_answer.rewards if name not in excluded}
    return (f"the probe `{probe}` {earns} {earned:.3g}; {reference} earns {limit:.3g}: {more}, most of it by the "
            f"reward {max(gains, key=gains.__getitem__)}")


def warnings(prompts: Sequence[PromptRewards], max_new_tokens: int) -> list[str]:
    """Sentences about what makes learning slow or impossible, each with a remedy."""
    sentences: list[str] = []
    samples = [sample for prompt in prompts for sample in prompt.samples]
    equal = equal_reward_groups(prompts)
    if samples and 2 * equal > len(prompts):
        left = "nothing" if equal == len(prompts) else "little"
        sentences.append(f"{equal} of {len(prompts)} groups have equal rewards: {left} to learn; "
                         f"{_what_to_do(samples)}")
    cut = sum(sample.truncated for sample in samples)
    if samples and 2 * cut >= len(samples):
        sentences.append(f"{cut} of {len(samples)} completions were cut off at algorithm.max_new_tokens "
                         f"({max_new_tokens}): a larger one, or first a model that ends its answers")
    if lost := [prompt.prompt for prompt in prompts if not prompt.right_answer.right]:
        sentences.append(f"the expected answer of {len(lost)} of {len(prompts)} prompts ({', '.join(lost[:3])}) is not "
                         "found again when it is written in the form of data.reasoning: a larger "
                         "algorithm.max_new_tokens, or other expected answers")
    return sentences


def equal_reward_groups(prompts: Sequence[PromptRewards]) -> int:
    """Number of groups of samples whose rewards are all equal."""
    return sum(len({sample.reward() for sample in prompt.samples}) == 1 for prompt in prompts)


def _what_to_do(samples: Sequence[TextRewards]) -> str:
    if not any(sample.right for sample in samples):
        return "no sample is correct: use easier prompts, or imitate traces first (algorithm.name=sft)"
    if all(sample.right for sample in samples):
        return "every sample is correct: use harder prompts"
    return "a larger algorithm.group, algorithm.name=dapo, or a finer reward"
