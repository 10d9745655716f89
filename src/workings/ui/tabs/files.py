"""Files of a run with their sizes and its root digest, and the content of one of them."""

import json
import stat
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from workings.engines.safetensors_file import TensorFile
from workings.errors import RecordError, RequestError
from workings.record.untrusted_files import open_plain
from workings.ui.site import Site
from workings.ui.tab import OpenedRun, Tab

MAX_BYTES = 200_000
"""Maximum bytes of a file that are shown."""


class FilesQuery(BaseModel):
    """The file to open."""

    file: str = Field(default="", max_length=2_000)


class TensorRow(BaseModel):
    """One tensor of a file of weights or moments."""

    name: str
    dtype: str
    shape: list[int]


class OpenedFile(BaseModel):
    """Content of a file of a run: its text, or the names and shapes of weights."""

    path: str
    size_bytes: int
    text: str = ""
    cut: bool = Field(default=False, description="Whether the text is only the beginning")
    tensors: list[TensorRow] = []
    problem: str = Field(default="", description="Why nothing is shown")


def run_file(site: Site, name: str, file: str = "") -> OpenedFile:
    """Content of a file of a run."""
    run = site.folder.path(name)
    path = run / file
    # Resolved, so that neither `..` nor a link leads out of the run.
    if not file or "\0" in file or not path.resolve().is_relative_to(run.resolve()) or not _is_plain(path):
        raise RequestError(f"file {file} of {name}", "a file of this run that is not a link",
                           "open the list of its files")
    # `lstat` does not follow a link that may have replaced the file.
    size = path.lstat().st_size
    if path.suffix == ".safetensors":
        try:
            # Read only the header; weights may have gigabytes.
            opened = TensorFile(path)
        except RecordError as error:
            return OpenedFile(path=file, size_bytes=size, problem=str(error)[:300])
        tensors = [TensorRow(name=name, dtype=str(opened.dtype(name)), shape=list(opened.shape(name)))
                   for name in opened.names()]
        return OpenedFile(path=file, size_bytes=size, tensors=tensors)
    with open_plain(path) as stream:
        # One more byte shows whether the file is longer.
        data = stream.read(MAX_BYTES + 1)
    text = data[:MAX_BYTES].decode("utf-8", "replace")
    # Text files have no zero byte; decoding alone accepts any bytes here.
    if "\0" in text:
        return OpenedFile(path=file, size_bytes=size, problem="it is not text")
    cut = len(data) > MAX_BYTES
    return OpenedFile(path=file, size_bytes=size, text=text if cut else _readable(path, text), cut=cut)


def _is_plain(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except (OSError, ValueError):
        return False


def _readable(path: Path, text: str) -> str:
    """JSON with one value per line; anything else unchanged."""
    if path.suffix == ".json":
        try:
            return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
        # Deeply nested JSON exhausts Python's stack.
        except (ValueError, RecursionError):
            return text
    return text


def values(site: Site, run: OpenedRun, query: FilesQuery) -> dict[str, Any]:
    """The opened file, where one was asked for."""
    return {"opened": run_file(site, run.name, query.file) if query.file else None}


TAB = Tab(key="files", title="Files", position=100, group="Record", query=FilesQuery, values=values, answer=run_file)
