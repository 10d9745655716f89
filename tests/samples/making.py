"""A model that draws right, wrong, cut-off and formless completions by their seeds, and units of its samples."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.doubles import AddingEngine, AddingModel, CharacterTokenizer, PlainTemplate
from tests.evaluation.making import items
from workings.engines.base import Completion
from workings.evaluation.run import sample_seed
from workings.evaluation.settings import EvaluationSettings
from workings.samples.draw import SampleRequest, sample
from workings.samples.selection import PairRule, Selection
from workings.samples.unit import SampleUnit
from workings.scoring.items import Item

DIGEST = "ab" * 32


class HashedTokenizer(CharacterTokenizer):
    """A digest that is no placeholder, as a verifier asks for."""

    digest = DIGEST


class DrawingEngine(AddingEngine):
    """By seed modulo 4: 0 right; 1 right in more words; 2 wrong; 3 right without the form."""

    def sample(self, state: object, prompts: Sequence[Sequence[int]], *, max_new_tokens: int, stop_ids: Sequence[int],
               temperature: float, seeds: Sequence[int]) -> list[Completion]:
        if len(self.calls) == self._die_at_call:
            raise KeyboardInterrupt
        self.calls.append({"seeds": list(seeds)})
        return [self._drawn("".join(map(chr, prompt)), seed, max_new_tokens)
                for prompt, seed in zip(prompts, seeds, strict=True)]

    def _drawn(self, text: str, seed: int, most: int) -> Completion:
        a, b = (int(number) for number in text.removeprefix("What is ").removesuffix("?").split("+"))
        steps = f"{a}+{b}={a + b}"
        answer = [f"<reasoning>{steps}</reasoning><answer>{a + b}</answer>",
                  f"<reasoning>I add them:\n{steps}</reasoning><answer>{a + b}</answer>",
                  f"<reasoning>{steps}</reasoning><answer>{a + b + 1}</answer>",
                  f"{steps}, so it is {a + b}"][seed % 4]
        tokens = [ord(character) for character in answer]
        return Completion(tokens=tokens[:most], finish_reason="stop" if len(tokens) <= most else "length")


def drawing_model(die_at_call: int | None = None) -> AddingModel:
    """A session around a `DrawingEngine`."""
    return AddingModel(engine=DrawingEngine(die_at_call=die_at_call), state=object(), tokenizer=HashedTokenizer(),
                       template=PlainTemplate())


def kinds(item: str, count: int, seed: int = 0) -> list[int]:
    """Kinds of the completions that the model samples for an item (see `DrawingEngine`)."""
    return [sample_seed(seed, item, number) % 4 for number in range(count)]


def draw(out: Path, *, session: AddingModel | None = None, asked: Sequence[Item] = (),
         selection: Selection | None = None, pairs: PairRule | None = None, **settings: Any) -> SampleUnit:
    """A unit of 4 samples of each of 8 items, two items at a time."""
    chosen = EvaluationSettings(**{"form": "tags", "samples": 4, "temperature": 1.0, "batch_size": 8, **settings})
    return sample(session or drawing_model(), asked or items(8), out, made_from=DIGEST,
                  facts={"run": "adder", "step": 3},
                  request=SampleRequest(settings=chosen, selection=selection or Selection(), pairs=pairs))


def samples_unit(out: Path) -> Path:
    """Eight prompts with four samples each, at most one kept of a prompt, and pairs."""
    return draw(out, selection=Selection(most_per_prompt=1), pairs=PairRule(rule="right-wrong")).path
