"""Train models that show their workings, and show yours.

    run = workings.train(model="Qwen/Qwen3-0.6B", data=rows, method="lora", steps=100)
    run.ask("What is 47+25?")

The Python interface: the functions `plan`, `train`, `evaluate`, `compare` and `verify`, and the class `Run`, which
`train` returns and `Run.open` opens. Each is imported when it is first used, so `import workings` imports no framework.
"""

from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # `X as X` tells type checkers that a name is meant for others; at run time `__getattr__` brings it.
    from workings.evaluation.comparison.compare import compare as compare
    from workings.evidence.verify import verify as verify
    from workings.runs.evaluate import evaluate_run as evaluate
    from workings.runs.plan import plan as plan
    from workings.runs.python_api.run_object import Run as Run
    from workings.runs.python_api.train import train as train

    __version__: str

_PLACES = {
    "Run": "workings.runs.python_api.run_object:Run",
    "compare": "workings.evaluation.comparison.compare:compare",
    "evaluate": "workings.runs.evaluate:evaluate_run",
    "plan": "workings.runs.plan:plan",
    "train": "workings.runs.python_api.train:train",
    "verify": "workings.evidence.verify:verify",
}
__all__ = ["Run", "compare", "evaluate", "plan", "train", "verify"]


# Asked by Python (PEP 562) only for names that the module does not have yet.
def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("workings")
    if name not in _PLACES:
        raise AttributeError(f"module 'workings' has no attribute {name!r}")
    # Kept, so that a verb is the same function whenever it is looked up.
    globals()[name] = value = resolve_name(_PLACES[name])
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
