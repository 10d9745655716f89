"""`improve` on the quickstart's model: few traces, then samples of the model itself."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from workings.config.load import load_recipe
from workings.errors import RequestError
from workings.runs.improve import ImproveRequest, improve
from workings.runs.improve_result import REQUEST, ImproveResult
from workings.runs.quickstarts.quickstart import make_data

RECIPE = "quickstart"
TRACES = 100
"""Number of the quickstart's 500 traces that are used; the model is then right on one sum in ten."""
SEED = 17
PROMPTS = 1_000
"""Number of other sums, used with their answer alone; none is among the held-out items, in either order."""


def improve_quickstart(out: Path, overrides: Sequence[str] = (), *, request: ImproveRequest,
                       say: Callable[[str], None] = lambda text: None) -> ImproveResult:
    """`improve` on the quickstart's recipe with generated data.

    Args:
        out: folder for everything; an unfinished one is continued.
        overrides: ``key=value`` words for every round's recipe, e.g. ``training.steps=40``.
        request: as in `improve`; ``prompts`` is set here.
        say: as in `improve`.

    Raises:
        RequestError: as `improve`.
    """
    data = out / "data"
    words = [f"seed={SEED}", "tokenizer=data/tokenizer", "data.traces=data/traces.jsonl", "evaluation.traces=none",
             "evaluation.items=data/items.jsonl", "evaluation.samples=0", *overrides]
    # Loaded before data are generated: a wrong override leaves no folder behind.
    recipe = replace(load_recipe(RECIPE, words), base=out)
    if out.exists() and not (out / REQUEST).is_file() and {path.name for path in out.iterdir()} - {data.name}:
        raise RequestError(f"--out {out}, which exists", "a folder that does not exist yet", f"--out {out}-2")
    if not (data / "manifest.json").is_file():  # written last: data of a killed call are generated again
        shutil.rmtree(data, ignore_errors=True)
        make_data(data, SEED, traces=TRACES, prompts=PROMPTS)
    return improve(recipe, out, request=replace(request, prompts=str(data / "prompts.jsonl")), say=say)
