"""A run's model as a folder that transformers, and whatever reads its format, opens without this package."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workings.errors import RequestError
from workings.models.chat import ChatTemplate
from workings.models.tokenizer import Tokenizer
from workings.record import atomic
from workings.record.digest import file_digest
from workings.record.storage import storage
from workings.runs.open_model import AS_RECORDED, TrainedModel, open_run

SCHEMA = "export/1"
ORIGIN = "export_info.json"
"""Says which sealed run and step the files come from."""


@dataclass(frozen=True, kw_only=True)
class Exported:
    """A folder in Hugging Face's format."""

    directory: Path
    run: str
    """Name of the run."""
    root: str
    """Root digest of the sealed run."""
    step: int
    files: dict[str, str]
    """Relative path -> SHA-256."""

    def as_json(self) -> dict[str, Any]:
        """Keys of `export --json`."""
        return {"out": str(self.directory), "run": self.run, "made_from": self.root, "step": self.step,
                "files": self.files}


def export_run(run: Path, out: Path, *, device: str = AS_RECORDED) -> Exported:
    """Write weights, ``config.json``, tokenizer and chat template of a run's last checkpoint into a new folder.

    The chat template is the one that the run was trained with, and generation stops where it was trained to stop.

    Args:
        run: a sealed run directory.
        out: folder to make.
        device: where the checkpoint is opened; by default what the run's recipe asked for.

    Raises:
        RequestError: ``out`` exists, no sealed run there, or the device is absent.
        RecordError: the run has no intact checkpoint.
        StorageError: the disk is full or failing; nothing is left at ``out``.
    """
    if out.exists():
        raise RequestError(f"--out {out}, which exists", "a directory that does not exist yet", "choose another --out")
    opened = open_run(run, device)
    # Beside the target, because a rename is only atomic within one file system.
    temporary = out.with_name(f".{out.name}.tmp")
    with storage(out, "export to"):
        # Left by an export that was killed.
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        try:
            exported = _write(opened, temporary, out)
            # Bytes before the name: after a power cut a folder of this name should hold whole files.
            atomic.sync_tree(temporary)
            temporary.rename(out)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        atomic.sync_directory(out.parent)
    return exported


def _write(opened: TrainedModel, directory: Path, out: Path) -> Exported:
    session = opened.session
    session.engine.export(session.state, directory)
    write_tokenizer(session.tokenizer, session.template, directory)
    files = {path.relative_to(directory).as_posix(): file_digest(path) for path in sorted(directory.rglob("*"))
             if path.is_file()}
    exported = Exported(directory=out, run=opened.run.path.name, root=opened.root, step=opened.checkpoint.step,
                        files=files)
    # Without the place: it belongs to this machine, and the folder may be moved or published.
    facts = {name: value for name, value in exported.as_json().items() if name != "out"}
    atomic.write_json(directory / ORIGIN, {"schema": SCHEMA} | facts)
    return exported


def write_tokenizer(tokenizer: Tokenizer, template: ChatTemplate, directory: Path) -> None:
    """Tokenizer files with the trained chat template, and ``generation_config.json`` with the trained stop tokens."""
    tokenizer.save(directory)
    config = directory / "tokenizer_config.json"
    # The model was trained with this template, which may differ from the one that its tokenizer came with.
    settings = json.loads(config.read_text(encoding="utf-8")) | {"chat_template": template.source}
    _write_json(config, settings)
    special = {"bos_token_id": tokenizer.bos_id, "pad_token_id": tokenizer.pad_id, "eos_token_id": template.stop_ids}
    _write_json(directory / "generation_config.json",
                # Greedy, as runs are evaluated unless a temperature is asked for.
                {name: value for name, value in special.items() if value is not None} | {"do_sample": False})


def _write_json(path: Path, values: dict[str, Any]) -> None:
    path.write_text(json.dumps(values, indent=2, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8")
