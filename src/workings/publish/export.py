"""A run's model as a folder that other programs open: in Hugging Face's format, or with a GGUF file."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from workings.config.model import FromPretrained
from workings.distributed.process_group import ProcessGroup
from workings.engines.checkpoint_files import ADAPTER_CONFIG, ADAPTER_FOLDER, CONFIG, merge_non_text_weights
from workings.errors import RequestError
from workings.hints import pip_install
from workings.inputs.object_store import STORED
from workings.models.chat import ChatTemplate
from workings.models.gguf.forms import form_of
from workings.models.hub import TERMS, TOKENIZER_FORMS, is_local
from workings.models.json_file import read_object, write_object
from workings.models.stop_tokens import StopTokens
from workings.models.tokenizer import Tokenizer
from workings.publish.gguf_file import write_gguf
from workings.record import atomic
from workings.record.digest import file_digest
from workings.record.manifest import LEFT_ASIDE
from workings.record.reader import RunRecord
from workings.record.values import Absent, absent
from workings.runs.open_model import ALONE, AS_RECORDED, TrainedModel, open_run, starting_weights

GENERATION_CONFIG = "generation_config.json"
SUPPRESSED_TOKENS_KEY = "suppress_tokens"
"""Tokens that are never to be written (Gemma 4: those that represent images and sounds)."""
OTHER_TOKENIZER = "the run has another tokenizer than the weights that it began with"
SCHEMA = "export/1"
ORIGIN_FILE = "export_info.json"
"""Says which sealed run and step the files come from."""
SAFETENSORS, GGUF = "safetensors", "gguf"
GGUF_FILE = "model.gguf"
CONFIG_FORM = "5.0.0"
"""The first version of transformers whose ``config.json`` has the form of ours. Without a version, transformers warns
of the pre-tokenizer of a large vocabulary."""


def published_id(run: RunRecord) -> str | None:
    """Id on the Hub of the weights that a run began with; None for a local folder, and for random weights."""
    revision = run.manifest.model_revision
    is_on_hub = isinstance(revision, str) and not is_local(revision) and revision != STORED
    return run.manifest.model_id if is_on_hub else None


def first_folder(opened: TrainedModel) -> Path | Absent:
    """The published folder that a run began with, or why there is none: a full fine-tuning does not need it."""
    if not isinstance(opened.recipe.model, FromPretrained):
        return absent("the run began with random weights")
    try:
        return starting_weights(opened.run.path, tensors=False)
    except RequestError as error:
        return absent(f"{error.given}; needed: {error.expected}")


def carry_over(opened: TrainedModel, directory: Path, *, tokenizer: bool = True) -> dict[str, Any]:
    """Copy terms of use and, if wanted, further forms of the tokenizer into a folder; nothing in it is replaced.

    Gives key `carried_over` of `export --json`: the base weights (a Hub id, or a local folder's name), names of the
    files that were copied from there, and why others were not; or why there is no such folder.
    """
    base = first_folder(opened)
    if isinstance(base, Absent):
        return base.model_dump()
    # Forms of another tokenizer next to the run's own would be two vocabularies in one folder.
    same = has_tokenizer(base, opened.session.tokenizer)
    forms = _file_names(base, TOKENIZER_FORMS) if tokenizer else []
    names = _file_names(base, TERMS) + (forms if same else [])
    copied = [name for name in names if not (directory / name).exists()]
    for name in copied:
        # Without times and permissions: an equal model gives an equal folder.
        shutil.copyfile(base / name, directory / name)
    file, own_file = base / GENERATION_CONFIG, directory / GENERATION_CONFIG
    # Of the base's settings only this list: stop tokens and temperature stay the run's.
    if same and tokenizer and file.is_file() and (tokens := read_object(file).get(SUPPRESSED_TOKENS_KEY)):
        write_object(own_file, read_object(own_file) | {SUPPRESSED_TOKENS_KEY: tokens})
    carried = {"from": published_id(opened.run) or base.name, "files": sorted(copied)}
    return carried if same or not forms else carried | {"left": dict.fromkeys(forms, OTHER_TOKENIZER)}


def _file_names(folder: Path, patterns: Sequence[str]) -> list[str]:
    return [path.name for pattern in patterns for path in sorted(folder.glob(pattern)) if path.is_file()]


def has_tokenizer(base: Path, tokenizer: Tokenizer) -> bool:
    """Whether a folder has this very tokenizer."""
    return (base / "tokenizer.json").is_file() and Tokenizer.load(base).digest == tokenizer.digest


@dataclass(frozen=True, kw_only=True)
class Exported:
    """An exported folder."""

    directory: Path
    run: str
    root: str
    step: int
    format: str
    """`SAFETENSORS`, or `GGUF` with the number format of its matrices."""
    files: dict[str, str]
    """Relative path -> SHA-256."""
    carried_over: dict[str, Any]
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Keys of `export --json`."""
        return {"out": str(self.directory), "run": self.run, "made_from": self.root, "step": self.step,
                "format": self.format, "files": self.files, "carried_over": self.carried_over, "notes": [*self.notes]}


def export_run(run: Path, out: Path, *, device: str = AS_RECORDED, gguf_type: str = "",
               group: ProcessGroup = ALONE) -> Exported:
    """Write a run's last checkpoint into a new folder: in Hugging Face's format, or as a GGUF file.

    Terms of use, further forms of the tokenizer, and everything but the text part of a multimodal model come from the
    weights that the run began with; a GGUF file holds the text part alone.

    Args:
        run: a sealed run directory.
        out: folder to make.
        device: where the checkpoint is opened; by default what the run's recipe asked for.
        gguf_type: one of `gguf_file.TYPES` for a GGUF file; empty: Hugging Face's format.
        group: processes that hold a run's model together; by default this one alone.

    Raises:
        RequestError: ``out`` exists, no sealed run there, the device is absent, the run trained the text part of a
            multimodal model that is not where the recipe had it, or GGUF has no form for its model or tokenizer.
        RecordError: the run has no intact checkpoint.
        StorageError: the disk is full or failing; nothing is left at ``out``.
    """
    if out.exists():
        raise RequestError(f"--out {out} already exists", "a directory that does not exist yet", "choose another --out")
    if gguf_type and find_spec("gguf") is None:
        raise RequestError("--format gguf needs the package gguf", "the package that writes GGUF", pip_install("gguf"))
    opened = open_run(run, device, group)
    with atomic.new_folder(out, "export to") as folder:
        return _write(opened, folder, out, gguf_type)


def _write(opened: TrainedModel, directory: Path, out: Path, gguf_type: str) -> Exported:
    session, base = opened.session, first_folder(opened)
    same_tokenizer = base if isinstance(base, Path) and has_tokenizer(base, session.tokenizer) else None
    stop = StopTokens.of(session.template, same_tokenizer)
    notes = [stop.disagreement] if stop.disagreement else []
    if gguf_type:
        _write_gguf(opened, directory, out.name, stop, gguf_type)
    else:
        _write_safetensors(opened, directory, stop)
        if isinstance(base, Path):
            base_config, after = read_object(base / CONFIG), read_object(directory / CONFIG)["dtype"]
            before = base_config.get("dtype", base_config.get("torch_dtype", after))  # the key's new and old name
            if before and before != after:
                notes.append(f"the weights are in {after}, in which the run kept them; those that it began with are in "
                             f"{before}")
    carried = carry_over(opened, directory, tokenizer=not gguf_type)
    files = {path.relative_to(directory).as_posix(): file_digest(path) for path in sorted(directory.rglob("*"))
             if path.is_file()}
    exported = Exported(directory=out, run=opened.run.path.name, root=opened.run.root, step=opened.checkpoint.step,
                        format=f"{GGUF} {gguf_type}" if gguf_type else SAFETENSORS, files=files,
                        carried_over=carried, notes=tuple(notes))
    # The folder may be moved or published.
    facts = {name: value for name, value in exported.to_json().items() if name != "out"}
    atomic.write_json(directory / ORIGIN_FILE, {"schema": SCHEMA} | facts)
    return exported


def _write_safetensors(opened: TrainedModel, directory: Path, stop: StopTokens) -> None:
    session = opened.session
    session.engine.export(session.state, directory)
    if LEFT_ASIDE in opened.run.manifest.facts:
        merge_non_text_weights(directory, starting_weights(opened.run.path), opened.request.shape)
    write_tokenizer(session.template, stop, directory)
    # For special tokens that `config.json` does not name, readers take the defaults of a family.
    values = {"transformers_version": CONFIG_FORM} | read_object(directory / CONFIG)
    if session.tokenizer.special_text("pad_token"):
        values["pad_token_id"] = session.tokenizer.pad_id
    write_object(directory / CONFIG, values | _special_ids(session.tokenizer, stop))
    adapters = directory / ADAPTER_FOLDER / ADAPTER_CONFIG
    # Adapters name the published weights that they belong to; a local folder has no such name.
    if adapters.parent.is_dir() and (name := published_id(opened.run)):
        write_object(adapters, read_object(adapters) | {
            "base_model_name_or_path": name, "revision": str(opened.run.manifest.model_revision)})


def _write_gguf(opened: TrainedModel, directory: Path, name: str, stop: StopTokens, number_format: str) -> None:
    session = opened.session
    form_of(opened.request.shape).header(opened.request.shape)
    weights = directory / "weights"
    weights.mkdir()
    session.engine.export(session.state, weights)
    write_gguf(weights, directory / GGUF_FILE, number_format, session.template, stop, name)
    shutil.rmtree(weights)


def write_tokenizer(template: ChatTemplate, stop: StopTokens, directory: Path) -> None:
    """Tokenizer files with the trained chat template, and ``generation_config.json`` with the trained stop tokens."""
    tokenizer = template.tokenizer
    tokenizer.save(directory)
    config = directory / "tokenizer_config.json"
    settings = read_object(config) | {"chat_template": template.source}
    # tokenizer.json has these as well, but llama.cpp's converter of a tokenizer.model reads them only here.
    added = read_object(directory / "tokenizer.json")["added_tokens"]
    settings["added_tokens_decoder"] = {str(token.pop("id")): token for token in added}
    if stop.disagreement:
        settings |= {"eos_token": tokenizer.token(stop.ids[0]), "eos_token_id": stop.ids[0]}
    write_object(config, settings)
    # transformers reads and writes this file by now; other tools read the template in the settings above.
    (directory / "chat_template.jinja").write_text(template.source, encoding="utf-8")
    write_object(directory / GENERATION_CONFIG,
                 _special_ids(tokenizer, stop) | {"pad_token_id": tokenizer.pad_id, "do_sample": False})


def _special_ids(tokenizer: Tokenizer, stop: StopTokens) -> dict[str, Any]:
    """Ids of the tokens that begin a sequence (if there is one) and end an answer, by Hugging Face's names."""
    special = {"bos_token_id": tokenizer.bos_id, "eos_token_id": list(stop.ids)}
    return {name: value for name, value in special.items() if value is not None}
