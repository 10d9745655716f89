"""Episodes: completions of several turns, with an environment's replies between them.

An episode's tokens are: turn, reply, turn, reply, …, turn. Nothing is tokenized again, so the model is trained on the
very tokens that it wrote.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from workings.engines.base import Completion
from workings.environments.base import ROW_KEY, SEED_KEY, Row, Step
from workings.environments.process import EnvironmentProcess
from workings.errors import RecordError
from workings.models.chat import ChatTemplate
from workings.record.digest import bytes_digest
from workings.rollouts.prompts import Prompt
from workings.rollouts.rollout import EpisodeTurn, Sample

Write = Callable[[Sequence[Sequence[int]], Sequence[int]], Sequence[Completion]]
"""Samples one completion for each prompt and seed."""


@dataclass(frozen=True, kw_only=True)
class EpisodeRules:
    """Decides when an episode continues."""

    turns: int
    """Most turns of the model."""
    max_length: int
    """Most tokens of prompt, turns and replies."""
    max_new_tokens: int
    """Most tokens of one turn."""

    def goes_on(self, *, turns: int, tokens: int, reply: Step) -> bool:
        """Whether a further turn follows ``turns``; ``tokens``: of prompt, turns and replies so far."""
        return not reply.done and turns < self.turns and tokens + self.max_new_tokens <= self.max_length


@dataclass(kw_only=True)
class Episode:
    """An episode while it is played."""

    prompt: Prompt
    seed: int
    tokens: list[int] = field(default_factory=list)
    """All tokens after the prompt, including stop tokens."""
    log_probs: list[float] = field(default_factory=list)
    """Of each token; 0 for those of a reply."""
    turns: list[EpisodeTurn] = field(default_factory=list)
    done: bool = False
    stop_token: int | None = None
    """Stop token of the last turn; None if it was cut off."""

    @property
    def sample(self) -> Sample:
        """The episode as a sample without rewards: all turns and the replies between them are one completion."""
        was_cut_off = self.stop_token is None
        completion = Completion(
            tokens=self.tokens if was_cut_off else self.tokens[:-1], stop_token=self.stop_token,
            finish_reason="length" if was_cut_off else "stop", log_probs=self.log_probs)
        return Sample(seed=self.seed, completion=completion, turns=tuple(self.turns), done=self.done)


def play(prompts: Sequence[Prompt], seeds: Sequence[int], *, player: EnvironmentProcess, template: ChatTemplate,
         rules: EpisodeRules, write: Write) -> list[Sample]:
    """Plays an episode of each prompt to its end, all together turn by turn. Raises `RewardError`.

    ``seeds``: a sampling seed for each prompt; ``player``: plays the environment; ``write``: samples the model's turns.
    """
    player.reset([beginning(prompt) for prompt in prompts])
    episodes = [Episode(prompt=prompt, seed=seed) for prompt, seed in zip(prompts, seeds, strict=True)]
    running = [*range(len(episodes))]
    while running:
        completions = write([[*episodes[n].prompt.tokens, *episodes[n].tokens] for n in running],
                            [turn_seed(episodes[n].seed, len(episodes[n].turns)) for n in running])
        replies = player.step([(n, template.tokenizer.decode(completion.tokens))
                               for n, completion in zip(running, completions, strict=True)])
        running = [n for n, completion, reply in zip(running, completions, replies, strict=True)
                   if _take_turn(episodes[n], completion, reply, template, rules)]
    return [episode.sample for episode in episodes]


def _take_turn(episode: Episode, completion: Completion, reply: Step, template: ChatTemplate,
               rules: EpisodeRules) -> bool:
    """Adds a turn and its reply; returns whether the episode continues."""
    written = [*completion.tokens, completion.stop_token] if completion.stop_token is not None else completion.tokens
    observed = reply_tokens(reply, template, ended=completion.stop_token is not None)
    goes_on = rules.goes_on(turns=len(episode.turns) + 1, reply=reply,
                            tokens=len(episode.prompt.tokens) + len(episode.tokens) + len(written) + len(observed))
    # A reply that the model never reads is not part of the episode.
    shown = observed if goes_on else []
    episode.tokens += [*written, *shown]
    episode.log_probs += [*completion.log_probs, *[0.0] * len(shown)]
    episode.turns.append(EpisodeTurn(len(written), len(shown), reply.reward))
    episode.done, episode.stop_token = reply.done, completion.stop_token
    return goes_on


def reply_tokens(reply: Step, template: ChatTemplate, *, ended: bool) -> list[int]:
    """Tokens of an environment's reply; none if the episode is over.

    ``ended``: whether the model ended its turn; otherwise the reply begins with the stop token.
    """
    if reply.done:
        return []
    first_stop = [] if ended else template.stop_ids[:1]
    return [*first_stop, *template.observation_ids(reply.observation)]


def beginning(prompt: Prompt) -> tuple[int, Row]:
    """Seed and row of a prompt's environment. Raises `RecordError` if the record has none."""
    seed, row = prompt.item.extra.get(SEED_KEY), prompt.item.extra.get(ROW_KEY)
    if type(seed) is not int or not isinstance(row, Mapping):
        raise RecordError(f"prompt {prompt.item.id[:60]!r} without {SEED_KEY} and {ROW_KEY}")
    return seed, row


def turn_seed(seed: int, turn: int) -> int:
    """Sampling seed (below 2**32) of a turn, from 0; the first has the seed of the sample."""
    return seed if not turn else int(bytes_digest(f"turn/{seed}/{turn}".encode())[:8], 16)
