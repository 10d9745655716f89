"""Texts as tokens, and the proof that a completion teaches what it should.

Every completion is proved before the first step: exactly one BOS, the stop token learned, the prompt masked, its text
given back by the tokens, and no text that ends or forges a turn. One that fails is an error that names it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from workings.errors import RequestError
from workings.models.chat import ChatTemplate
from workings.models.tokenizer import Tokenizer

_CHUNK = 1024
"""Examples that are encoded at a time: enough for all cores, little enough for memory."""


@dataclass(frozen=True, kw_only=True)
class Example:
    """A prompt, and the completion that is learned after it, as texts."""

    id: str
    """Of the row that it gives."""
    name: str
    """What a message calls it."""
    prompt: str
    """The question, without any chat turn around it."""
    history: tuple[tuple[str, str], ...]
    """Earlier turns as (role, text)."""
    completion: str
    """What the model has to write, without any chat turn around it."""
    parts: tuple[str, ...]
    """Texts of the completion that its tokens have to give back."""
    thinks: bool
    """Whether the completion begins with a `<think>` block."""


@dataclass(frozen=True)
class Encoded:
    """An example as proved tokens."""

    example: Example
    prompt: list[int]
    """BOS and turn marks included; not learned."""
    completion: list[int]
    """Up to and including the stop token; learned."""


def encoded(examples: Iterable[Example], tokenizer: Tokenizer, template: ChatTemplate) -> Iterator[Encoded]:
    """Examples as tokens, in their order.

    Raises:
        RequestError: naming the example, when something that must hold does not.
    """
    remaining = iter(examples)
    while chunk := list(islice(remaining, _CHUNK)):
        texts = [_texts(example, template) for example in chunk]
        # Prompt and completion apart: encoded as one text, tokens could merge across the border, and generation, which
        # starts behind the prompt's tokens, would never see such a token.
        prompts = tokenizer.encode_batch([prompt for prompt, _ in texts])
        completions = tokenizer.encode_batch([completion for _, completion in texts])
        for example, ids, learned in zip(chunk, prompts, completions, strict=True):
            # After encoding, because `encode` adds no special token and the template may or may not write BOS itself.
            found = Encoded(example, template.with_bos(ids), learned)
            _prove(found, tokenizer, template)
            yield found


def _texts(example: Example, template: ChatTemplate) -> tuple[str, str]:
    try:
        return (template.prompt_text(example.prompt, example.history),
                template.completion_text(example.prompt, example.completion, example.history))
    except RequestError as error:
        # The usual reason why a template rewrites an answer: most of them trim it.
        if example.completion != example.completion.strip():
            raise RequestError(f"{example.name}: white space around its completion, with which chat template "
                               f"`{template.name}` does not write it", "a completion without it") from None
        raise RequestError(f"{example.name}: {error.given}", error.expected, error.try_next) from None


def _prove(found: Encoded, tokenizer: Tokenizer, template: ChatTemplate) -> None:
    """Check what must hold for a row; see the module's text. The reasons are what a person reads."""
    example, before, learned = found.example, found.prompt, found.completion
    bos, stop = template.bos_id, template.stop_ids[0]
    # First, because a forged turn also fails the checks below, with reasons that would mislead.
    _refuse_forged_turns(found, tokenizer, template)
    if bos is not None and (before[0] != bos or before.count(bos) != 1):
        raise _unproved(example, f"{before.count(bos)} BOS tokens in the prompt", "exactly one, at the start")
    if not learned:
        raise _unproved(example, "no supervised token", "at least one")
    if learned[-1] != stop or learned.count(stop) != 1:
        raise _unproved(example, f"the last learned token is {tokenizer.token(learned[-1])}",
                        f"the stop token {tokenizer.token(stop)}, once, at the end")
    # A tokenizer that does not know a character may drop it; only decoding shows that. White space is left out of the
    # comparison, because some decoders add or take a space at a border.
    text = tokenizer.decode(learned)
    for part in example.parts:
        if "".join(part.split()) not in "".join(text.split()):
            raise _unproved(example, f"the learned tokens read {text!r} and do not hold {part!r}",
                            "a tokenizer that gives back what it was given")


def _refuse_forged_turns(found: Encoded, tokenizer: Tokenizer, template: ChatTemplate) -> None:
    example = found.example
    # Counted as ids and not searched for as text: only what the tokenizer takes for a control token does harm.
    controls = tokenizer.control_ids
    expected = template.control_counts(tuple(role for role, _ in example.history), example.thinks)
    if (sum(i in controls for i in found.prompt), sum(i in controls for i in found.completion)) == expected:
        return
    own = [example.prompt, *example.parts, *(text for _, text in example.history)]
    # Looked for only now: a vocabulary can hold thousands of control tokens, and nearly every row passes.
    tokens = [token for token in tokenizer.control_tokens if any(token in text for text in own)]
    raise _unproved(example, f"control tokens in its text: {', '.join(tokens) or 'not found one by one'}",
                    "text that cannot end or forge a turn")


def _unproved(example: Example, given: str, expected: str) -> RequestError:
    return RequestError(f"{example.name}: {given}", expected,
                        "workings data preview RECIPE shows the row as the model will see it")
