"""The quickstart's model improves itself: shown few traces, it draws, keeps what is right, and is trained again."""

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
"""Of the quickstart's 500; a model that saw no more is right on one sum in ten."""
PROMPTS = 1_000
"""Other sums, of which the answer alone is used; none is among the held-out items, in either order."""


def improve_quickstart(out: Path, overrides: Sequence[str] = (), *, asked: ImproveRequest, seed: int = 17,
                       say: Callable[[str], None] = lambda text: None) -> ImproveResult:
    """`improve` on the quickstart's recipe with data that are made here.

    Args:
        out: folder for everything; an unfinished one is continued.
        overrides: ``key=value`` words for every round's recipe, e.g. ``training.steps=40``.
        asked: as in `improve`; ``prompts`` is set here.
        seed: decides data, weights, the order of rows and what is drawn.
        say: as in `improve`.

    Raises:
        RequestError: as `improve`.
    """
    data = out / "data"
    words = [f"seed={seed}", "tokenizer=data/tokenizer", "data.traces=data/traces.jsonl", "evaluation.traces=none",
             "evaluation.items=data/items.jsonl", "evaluation.samples=0", *overrides]
    # Loaded before data are made: a wrong override leaves no folder behind.
    recipe = replace(load_recipe(RECIPE, words), base=out)
    if out.exists() and not (out / REQUEST).is_file() and {path.name for path in out.iterdir()} - {data.name}:
        raise RequestError(f"--out {out}, which exists", "a folder that does not exist yet", f"--out {out}-2")
    if not (data / "manifest.json").is_file():  # written last: data of a call that was killed are made again
        shutil.rmtree(data, ignore_errors=True)
        make_data(data, seed, traces=TRACES, prompts=PROMPTS)
    return improve(recipe, out, asked=replace(asked, prompts=str(data / "prompts.jsonl")), say=say)
