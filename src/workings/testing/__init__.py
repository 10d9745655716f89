"""Doubles for the tests of anyone who builds on this library: an engine that learns, and a model that adds.

- `UnigramEngine` is a whole engine (`workings.engines.base.Engine`) in NumPy. Runs with it take seconds, and variables
  in the environment make it misbehave. An entry point of group ``workings.engines`` has to name it before a recipe can.
- `AddingEngine`, `CharacterTokenizer` and `PlainTemplate` are as much of a model as `workings.evaluation.run.evaluate`
  asks for. Their answers are known beforehand. `adding_model` makes all of them at once, as one `ModelSession`.

An evaluation without a model::

    from pathlib import Path

    from workings.scoring.items import Item
    from workings.evaluation.run import evaluate
    from workings.evaluation.settings import EvaluationSettings
    from workings.testing import adding_model

    model = adding_model(wrong_every=4)
    items = [Item(id=f"i{a}", prompt=f"What is {a}+7?", expected_answer=str(a + 7)) for a in range(8)]
    scorecard = evaluate(model, items, Path("evaluation"), settings=EvaluationSettings(), made_from=None)
    assert scorecard.accuracy == 0.75

Nothing here imports a framework, and nothing is imported before it is used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workings.testing.fakes import AddingEngine as AddingEngine
    from workings.testing.fakes import CharacterTokenizer as CharacterTokenizer
    from workings.testing.fakes import PlainTemplate as PlainTemplate
    from workings.testing.fakes import adding_model as adding_model
    from workings.testing.unigram import UnigramEngine as UnigramEngine

_PLACES = {
    "AddingEngine": "workings.testing.fakes",
    "CharacterTokenizer": "workings.testing.fakes",
    "PlainTemplate": "workings.testing.fakes",
    "UnigramEngine": "workings.testing.unigram",
    "adding_model": "workings.testing.fakes",
}
__all__ = ["AddingEngine", "CharacterTokenizer", "PlainTemplate", "UnigramEngine", "adding_model"]


# Asked by Python for names that the module does not have yet, so importing this module imports no double.
def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'workings.testing' has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
