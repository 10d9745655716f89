"""Train models that show their workings, and show yours.

The Python interface is the verbs: `plan`, `train`, `evaluate`, `compare`, `verify`. They are imported when they
are first used, so that `import workings` brings in no framework.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workings.evaluation.comparison.compare import compare as compare
    from workings.evidence.verify import verify as verify
    from workings.runs.evaluate import evaluate_run as evaluate
    from workings.runs.plan import plan as plan
    from workings.runs.train_and_evaluate import train_and_evaluate as train

_PLACES = {
    "compare": ("workings.evaluation.comparison.compare", "compare"),
    "evaluate": ("workings.runs.evaluate", "evaluate_run"),
    "plan": ("workings.runs.plan", "plan"),
    "train": ("workings.runs.train_and_evaluate", "train_and_evaluate"),
    "verify": ("workings.evidence.verify", "verify"),
}
__all__ = ["compare", "evaluate", "plan", "train", "verify"]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'workings' has no attribute {name!r}")
    module, attribute = _PLACES[name]
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted(__all__)
