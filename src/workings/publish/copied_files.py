"""Files that an exported folder copies unchanged from the published folder of the run's first weights."""

import json
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workings.config.model import FromPretrained
from workings.errors import RequestError
from workings.inputs.object_store import STORED
from workings.models.hub import TERMS, TOKENIZER_FORMS, is_local
from workings.models.tokenizer import Tokenizer
from workings.record.values import Absent, absent
from workings.runs.open_model import TrainedModel, starting_weights

GENERATION_CONFIG = "generation_config.json"
SUPPRESSED_TOKENS_KEY = "suppress_tokens"
"""Tokens that are never to be written (Gemma 4: those that represent images and sounds)."""
OTHER_TOKENIZER = "the run has another tokenizer than the weights that it began with"


@dataclass(frozen=True, kw_only=True)
class Carried:
    """Files copied from a run's base weights."""

    source: str
    """Their id on the Hub, or a local folder's own name."""
    files: tuple[str, ...]
    """Names of the files that were copied."""
    left: dict[str, str]
    """Files that were not -> why."""

    def to_json(self) -> dict[str, Any]:
        """Key `carried_over` of `export --json`."""
        return {"from": self.source, "files": list(self.files)} | ({"left": self.left} if self.left else {})


def published_id(opened: TrainedModel) -> str | None:
    """Id on the Hub of the weights that a run began with; None for a local folder, and for random weights."""
    model = opened.recipe.model
    revision = str(opened.run.manifest.model_revision)
    is_published = isinstance(model, FromPretrained) and not is_local(revision) and revision != STORED
    return model.id if isinstance(model, FromPretrained) and is_published else None


def first_folder(opened: TrainedModel) -> Path | Absent:
    """The published folder that a run began with, or why none exists.

    Weights and tokenizer of a full fine-tuning are in its checkpoint, so that the folder may be gone.
    """
    if not isinstance(opened.recipe.model, FromPretrained):
        return absent("the run began with random weights")
    try:
        return starting_weights(opened.run.path, tensors=False)
    except RequestError as error:
        return absent(f"{error.given}; needed: {error.expected}")


def carry_over(opened: TrainedModel, directory: Path, *, tokenizer: bool = True) -> Carried | Absent:
    """Copy terms of use and further forms of the tokenizer into an exported folder; nothing in it is replaced.

    Args:
        opened: the run.
        directory: the exported folder.
        tokenizer: whether forms of the tokenizer belong there.
    """
    base = first_folder(opened)
    if isinstance(base, Absent):
        return base
    # Forms of another tokenizer next to the run's own would be two vocabularies in one folder.
    same = has_tokenizer(base, opened.session.tokenizer)
    forms, terms = _present(base, TOKENIZER_FORMS if tokenizer else ()), _present(base, TERMS)
    copied = [name for name in (*terms, *(forms if same else ())) if not (directory / name).exists()]
    for name in copied:
        # Without times and permissions: an equal model gives an equal folder.
        shutil.copyfile(base / name, directory / name)
    if same and tokenizer:
        # Ids: with another tokenizer they would name other tokens.
        _suppress(base, directory)
    return Carried(source=published_id(opened) or base.name, files=tuple(sorted(copied)),
                   left={} if same else dict.fromkeys(forms, OTHER_TOKENIZER))


def _present(base: Path, patterns: Iterable[str]) -> list[str]:
    # Sorted, because a file system lists names in any order.
    return [path.name for pattern in patterns for path in sorted(base.glob(pattern)) if path.is_file()]


def has_tokenizer(base: Path, tokenizer: Tokenizer) -> bool:
    """Whether a folder has this very tokenizer."""
    return (base / "tokenizer.json").is_file() and Tokenizer.load(base).digest == tokenizer.digest


def _suppress(base: Path, directory: Path) -> None:
    """Take over which tokens are never to be written; stop tokens and temperature stay those of the run."""
    if not (base / GENERATION_CONFIG).is_file():
        return
    published = json.loads((base / GENERATION_CONFIG).read_text(encoding="utf-8"))
    if published.get(SUPPRESSED_TOKENS_KEY):
        own = json.loads((directory / GENERATION_CONFIG).read_text(encoding="utf-8"))
        text = json.dumps(own | {SUPPRESSED_TOKENS_KEY: published[SUPPRESSED_TOKENS_KEY]}, indent=2,
                          ensure_ascii=False, sort_keys=True)
        (directory / GENERATION_CONFIG).write_text(text + "\n", encoding="utf-8")
