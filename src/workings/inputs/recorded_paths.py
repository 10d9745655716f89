"""Paths of a sealed run's recipe: the run may have been moved since, alone or together with its inputs."""

from pathlib import Path

from workings.config.model import FromPretrained
from workings.errors import RequestError
from workings.inputs.resolve import Weights, local_folder, locate_weights
from workings.models.hub import is_local
from workings.record.canonical import loads
from workings.record.layout import OVERRIDES
from workings.record.reader import RunRecord

PARENTS_SEARCHED = 3
"""Number of folders above a run in which a relative path of its recipe is searched."""


def recorded_base(run: RunRecord) -> Path:
    """The folder that the recipe's paths start from: the recorded one, relative to the run, or the current one."""
    overrides = loads((run.path / OVERRIDES).read_bytes())
    base = overrides.get("base") if isinstance(overrides, dict) else None
    return (run.path.resolve() / base if isinstance(base, str) else Path.cwd()).resolve()


def recorded_bases(run: RunRecord) -> list[Path]:
    """Folders that a relative path of the recipe may start from, the likeliest first."""
    # A run may have been moved with its weights: try the folders above it last.
    return [recorded_base(run), Path.cwd(), *list(run.path.absolute().parents)[:PARENTS_SEARCHED]]


def recorded_weights(run: RunRecord, model: FromPretrained, try_next: str, *, adapters: bool, tensors: bool) -> Weights:
    """Finds the weights that training started from: at the recipe's path, near the run, in a store or on the Hub.

    Args:
        run: a sealed run.
        model: section `model` of its recipe.
        try_next: last line of the error if they are missing.
        adapters: whether the run trained adapters.
        tensors: also their tensors, not only the files that describe them.

    Raises:
        RequestError: they are missing.
    """
    revision, bases = str(run.manifest.model_revision), recorded_bases(run)
    # Do not search a local name on the Hub.
    if is_local(revision) and local_folder(model.id, bases) is None:
        raise RequestError(
            f"the weights that {run.path} started from are not in {model.id}",
            "these weights" + (": the checkpoint holds the adapters only" if adapters else ""), try_next)
    return locate_weights(model.id, revision, bases, tensors=tensors)
