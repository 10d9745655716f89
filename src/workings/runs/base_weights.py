"""The frozen weights that the adapters of a sealed run belong on: found again, and proved to be the same."""

from pathlib import Path

from workings.config.model import FromPretrained
from workings.config.recipe import Recipe
from workings.errors import RecordError, RequestError
from workings.models.hub import weights_directory
from workings.record.digest import file_digest
from workings.record.layout import MANIFEST
from workings.record.manifest import RunManifest
from workings.record.reader import Run
from workings.record.values import Absent

NEAR = 3
"""Folders above a run in which a relative path of its recipe is looked for."""


def weight_digests(directory: Path) -> dict[str, str]:
    """SHA-256 of every file of weights in a directory, by name."""
    return {file.name: file_digest(file) for file in sorted(directory.glob("*.safetensors"))}


def base_weights(run: Run, recipe: Recipe) -> Path | None:
    """The directory of the weights beside which a run's adapters were trained.

    Returns:
        None where the checkpoint holds everything (full fine-tuning) or the base was drawn from the seed.

    Raises:
        RequestError: they are not where the recipe had them.
        RecordError: the weights found there are not those that the run was trained on.
    """
    model = recipe.model
    if recipe.method.name == "full" or not isinstance(model, FromPretrained):
        return None
    directory = _find(run, model)
    expected = run.manifest.weight_digests
    found = weight_digests(directory)
    if isinstance(expected, Absent) or found != expected:
        differing = sorted(name for name in {*found, *({} if isinstance(expected, Absent) else expected)}
                           if isinstance(expected, Absent) or found.get(name) != expected.get(name))
        raise RecordError(f"{run.path}: its adapters belong on other weights than those in {directory}: "
                          f"{', '.join(differing)} differ from the digests in {MANIFEST}")
    return directory


def _find(run: Run, model: FromPretrained) -> Path:
    name = Path(model.id).expanduser()
    places = [Path.cwd(), *list(run.path.absolute().parents)[:NEAR]]
    local = next((place / name for place in places if (place / name).is_dir()), None)
    if local is not None:
        return local
    manifest: RunManifest = run.manifest
    if manifest.model_revision == "local directory":
        raise RequestError(f"{run.path}, adapters for the weights in {model.id}, which is not there",
                           "these weights: the checkpoint holds the adapters only",
                           f"type it in the folder that {model.id} is relative to")
    return weights_directory(model.id, str(manifest.model_revision))[0]
