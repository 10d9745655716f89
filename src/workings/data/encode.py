"""Texts as tokens, and the proof that a completion teaches what it should.

Every completion is proved before the first step: exactly one BOS, the stop token learned, the prompt masked, its text
given back by the tokens, and no text that ends or forges a turn. One that fails is an error that names it.

Where every turn of the assistant is learned, each of them is proved like that, and its text is proved to be what the
chat template writes in the whole conversation. Each is encoded as the last one would be: apart from what comes before
it, because generation starts after its tokens.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, pairwise

from workings.errors import RequestError
from workings.models.chat import ChatTemplate
from workings.models.tokenizer import Tokenizer
from workings.models.turns import Asked, Turn

_FORGES_NOTHING = "text that cannot end or forge a turn"
_CHUNK = 1024
"""Examples that are encoded at a time: enough for all cores, little enough for memory."""


@dataclass(frozen=True, kw_only=True)
class Example:
    """A prompt, and the completion that is learned after it, as texts."""

    id: str
    name: str
    """Its name in messages."""
    prompt: str
    """The question, without any chat turn around it."""
    asked: Asked
    """The question with all turns before the completion."""
    learns_earlier: bool = False
    """Whether the assistant's turns before the completion are learned as well, but for those that are marked."""
    completion: str
    """The text that the model has to write, without any chat turn around it."""
    calls: str = ""
    """Calls of tools at its end; see `workings.data.traces.Trace.calls`."""
    parts: tuple[str, ...]
    """Texts of the completion that its tokens have to give back."""
    thinks: bool
    """Whether the completion begins with its reasoning; see `ChatTemplate.begins_with_reasoning`."""

    @property
    def said(self) -> Turn:
        """The completion as a turn."""
        return Turn("assistant", self.completion, more=self.calls)

    @property
    def earlier(self) -> list[Turn]:
        """The assistant's learned turns before the completion."""
        return [turn for turn in self.asked.turns if turn.role == "assistant" and turn.learned
                ] if self.learns_earlier else []


@dataclass(frozen=True)
class Encoded:
    """An example as proved tokens."""

    example: Example
    prompt: list[int]
    """BOS and turn marks included; not learned, but for ``earlier``."""
    completion: list[int]
    """Up to and including the stop token; learned."""
    earlier: tuple[tuple[int, int], ...] = ()
    """Earlier learned turns of the assistant in ``prompt``, each with its stop token, as (start,
    end)."""


def encoded(examples: Iterable[Example], tokenizer: Tokenizer, template: ChatTemplate) -> Iterator[Encoded]:
    """Examples as tokens, in their order. Raises `RequestError` naming the example that fails a proof."""
    remaining = iter(examples)
    while chunk := list(islice(remaining, _CHUNK)):
        texts = [_texts(example, template) for example in chunk]
        # Prompt and completion apart: encoded as one text, tokens could merge across the border, and generation, which
        # starts after the prompt's tokens, would never see such a token. What is read between two turns is encoded
        # after the stop token that it follows in the conversation: to some tokenizers the start of a text is special.
        read = iter(tokenizer.encode_batch([before for turns in texts for before, _ in turns]))
        learned_tokens = iter(tokenizer.encode_batch([learned for turns in texts for _, learned in turns]))
        for example, turns in zip(chunk, texts, strict=True):
            example_tokens = _joined(example, list(islice(read, len(turns))), list(islice(learned_tokens, len(turns))),
                                     template)
            _prove(example_tokens, tokenizer, template)
            yield example_tokens


def _texts(example: Example, template: ChatTemplate) -> list[tuple[str, str]]:
    """The text before each learned turn and the turn itself; the completion is the last one.

    What is read begins where the turn before ended: with the stop token of that turn, which is not read twice.
    """
    try:
        earlier = template.earlier_turns(example.asked) if example.learns_earlier else []
        turns = [*earlier, (template.read_text(example.asked), template.learned_text(example.asked, example.said))]
        stop = template.tokenizer.token(template.stop_ids[0])
        return turns[:1] + [(stop + after[len(before) + len(learned):], text)
                            for (before, learned), (after, text) in pairwise(turns)]
    except RequestError as error:
        _refuse_control_tokens(example, example.parts, template.tokenizer)
        _, answer = template.split_thought(example.completion)
        if answer != answer.strip():
            raise RequestError(f"{example.name}: its completion has white space around it, which chat template "
                               f"`{template.name}` leaves out", "a completion without it") from None
        raise RequestError(f"{example.name}: {error.given}", error.expected, error.try_next) from None


def _joined(example: Example, read: list[list[int]], learned_tokens: list[list[int]],
            template: ChatTemplate) -> Encoded:
    """All turns concatenated: of each turn the tokens that are ``read`` before it, and those that are learned.

    From the second turn on the first token that is read is the stop token of the turn before.
    """
    # After encoding, because `encode` adds no special token and the template may or may not write BOS itself.
    tokens, earlier = template.with_bos(read[0]), []
    for turn, (learned, after) in enumerate(zip(learned_tokens[:-1], read[1:], strict=True), start=1):
        if after[:1] != template.stop_ids[:1] or len(after) == 1:
            raise _unproved(example, f"there is no other turn between turn {turn} of the assistant and its next one",
                            "turns of the assistant with another speaker's between them")
        start = len(tokens)
        tokens = tokens + learned
        earlier.append((start, len(tokens)))
        # The stop token of the turn before is in `tokens` already, learned.
        tokens = tokens + after[1:]
    return Encoded(example, tokens, learned_tokens[-1], tuple(earlier))


def _prove(encoded: Encoded, tokenizer: Tokenizer, template: ChatTemplate) -> None:
    """Check a row (see the module's text)."""
    example, before, learned = encoded.example, encoded.prompt, encoded.completion
    bos, stop = template.bos_id, template.stop_ids[0]
    # First, because a forged turn also fails the checks below, with reasons that would mislead.
    _refuse_forged_turns(encoded, tokenizer, template)
    # Where one token begins and ends a text (GPT-2's tokenizer), it also ends the assistant's earlier turns.
    ends = sum(turn.role == "assistant" for turn in example.asked.turns) if bos == stop else 0
    if bos is not None and (before[0] != bos or before.count(bos) != 1 + ends):
        raise _unproved(example, f"the prompt has {before.count(bos) - ends} BOS tokens", "exactly one, at the start")
    turns = [(before[start:end], (turn.text,)) for (start, end), turn in zip(encoded.earlier, example.earlier,
                                                                             strict=True)]
    for tokens, parts in [*turns, (learned, example.parts)]:
        if not tokens:
            raise _unproved(example, "there is no supervised token", "at least one")
        if tokens[-1] != stop or tokens.count(stop) != 1:
            raise _unproved(example, f"the last learned token is {tokenizer.token(tokens[-1])}",
                            f"the stop token {tokenizer.token(stop)}, once, at the end")
        # A tokenizer that does not know a character may drop it; only decoding shows that. White space is left out of
        # the comparison, because some decoders add or take a space at a border.
        text = tokenizer.decode(tokens)
        for part in parts:
            if "".join(part.split()) not in "".join(text.split()):
                raise _unproved(example, f"the learned tokens read {text!r} and do not hold {part!r}",
                                "a tokenizer that decodes to the original text")


def _refuse_forged_turns(encoded: Encoded, tokenizer: Tokenizer, template: ChatTemplate) -> None:
    example = encoded.example
    # Counted as ids and not searched for as text: only what the tokenizer takes for a control token does harm.
    controls = tokenizer.control_ids
    _refuse_control_tokens(example, [text for text in (example.asked.tools, example.calls, *(
        turn.more for turn in example.asked.turns)) if text], tokenizer)
    expected = template.control_counts(example.asked, example.said, example.thinks)
    if (sum(i in controls for i in encoded.prompt), sum(i in controls for i in encoded.completion)) == expected:
        return
    _refuse_control_tokens(example, [*example.parts, *(turn.text for turn in example.asked.turns)], tokenizer)
    raise _unproved(example, "its text has control tokens that are not found one by one", _FORGES_NOTHING)


def _refuse_control_tokens(example: Example, texts: Iterable[str], tokenizer: Tokenizer) -> None:
    """Raise `RequestError` for control tokens in an example's texts."""
    own = list(texts)
    # Only after a failure: a vocabulary can hold thousands, and nearly every row passes.
    if own and (tokens := [token for token in tokenizer.control_tokens if any(token in text for text in own)]):
        raise _unproved(example, f"its text has control tokens: {', '.join(tokens)}", _FORGES_NOTHING)


def _unproved(example: Example, given: str, expected: str) -> RequestError:
    return RequestError(f"{example.name}: {given}", expected,
                        "workings data preview RECIPE shows the row as the model will see it")
