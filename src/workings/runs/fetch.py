"""Copies a finished run, or a pack of several, from an object store, and verifies it before it gets its name."""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workings.errors import RecordError, RequestError
from workings.evidence.verify import CheckVerdict, verify
from workings.inputs.object_store import about, copy, is_stored, listing, open_store


@dataclass(frozen=True, kw_only=True)
class Fetched:
    """A fetched record."""

    url: str
    path: Path
    root: str
    """Root digest of the record, to compare with a trusted one."""

    def to_json(self) -> dict[str, Any]:
        """Keys of ``fetch --json``."""
        return {"from": self.url, "path": str(self.path), "root": self.root}


def fetch(url: str, out: Path, expect_root: str = "") -> Fetched:
    """Copies a sealed run, a folder of runs, or a pack, and checks that every file is the sealed one.

    Args:
        url: address of the folder, or of the pack's ``.zip``.
        out: the folder (for a pack, the file) to make.
        expect_root: expected root digest; empty: any.

    Raises:
        RequestError: ``out`` exists, or the store cannot be reached or has nothing of this name.
        RecordError: a file differs from the seal; nothing is kept.
    """
    if not is_stored(url):
        raise RequestError(f"--from {url}", "an address in an object store", "--from gs://bucket/runs/NAME")
    if out.exists():
        raise RequestError(f"--out {out} already exists", "a name that does not exist yet", "another name")
    out.parent.mkdir(parents=True, exist_ok=True)
    # Next to its final path, so that the rename stays within one file system.
    with tempfile.TemporaryDirectory(dir=out.absolute().parent, prefix=".fetching-") as folder:
        store, (parent, _, last) = open_store(url), url.rstrip("/").rpartition("/")
        copied = Path(folder) / last
        if (attributes := about(store, url)).get("type") == "file":
            copy(store, parent, {last: attributes}, copied.parent)
        else:
            copy(store, url, listing(store, url), copied)
        result = verify(copied, level=0, expect_root=expect_root)
        if result.failed:
            raise RecordError("\n".join([f"{url}: the files differ from the seal", *(
                f"{check.id}: {check.text}" for check in result.checks if check.verdict == CheckVerdict.FAILED)]))
        copied.replace(out)
    return Fetched(url=url, path=out, root=result.root)
