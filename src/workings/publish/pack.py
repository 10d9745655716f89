"""`pack`: gather files, verify their runs, show what will be published, write the zip and verify it.

Nothing is written that would not verify.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

from workings.errors import RecordError, RequestError
from workings.evidence.pack.form import BY_DIGEST, INSIDE, PACK, PackList
from workings.evidence.pack.gather import Contents, gather, seal_documents, write_zip
from workings.evidence.pack.page import verify_page
from workings.evidence.pack.sources import data_manifests, sample_data
from workings.evidence.readmes import pack_readme
from workings.evidence.verify import verify
from workings.record import atomic
from workings.record.canonical import line, loads
from workings.record.layout import OVERRIDES, README, SEAL


@dataclass(frozen=True, kw_only=True)
class Packed:
    """A pack that was written, or is about to be."""

    out: Path
    root: str
    """Root digest of the pack: over everything in it."""
    entries: tuple[tuple[str, int], ...]
    """Every file with its bytes."""
    by_digest: tuple[tuple[str, int], ...]
    """Files that are named by digest, with their bytes."""
    zip_bytes: int
    """Bytes of the zip; 0 before it is written."""

    @property
    def page(self) -> Path:
        """The page next to the zip that checks it in a browser."""
        return self.out.with_suffix(".verify.html")


def pack(paths: Sequence[Path], out: Path, *, weights: str = INSIDE,
         show: Callable[[Packed], None] = lambda packed: None) -> Packed:
    """Pack sealed runs for others to verify.

    Args:
        paths: sealed runs, and evaluations that are next to runs.
        out: the zip to make; it must not exist.
        weights: `inside`, or `digest`: checkpoints' tensors are named by their digests only.
        show: called with what is about to be written, before it is.

    Raises:
        RequestError: placeholders, ``out`` exists, a failed run.
        RecordError: a run does not verify.
    """
    expected_out, example = "a .zip file that does not exist yet", "--out submission.zip"
    if out.exists():
        raise RequestError(f"--out {out} already exists", expected_out, example)
    if out.suffix != ".zip":
        raise RequestError(f"--out {out} is not a .zip file", expected_out, example)
    if weights not in (INSIDE, BY_DIGEST):
        raise RequestError(f"--weights cannot be {weights}", f"{INSIDE} or {BY_DIGEST}", f"--weights {BY_DIGEST}")
    contents = gather(paths, weights)
    _refuse_failing([*(run.path for run in contents.runs.values()), *contents.evaluations.values()])
    documents = seal_documents(_documents(contents, weights))
    sizes = {name: len(data) for name, data in documents.items()}
    sizes |= {name: file.size for name, file in contents.sealed_files.items()}
    planned = Packed(
        out=out, root=loads(documents[SEAL])["root"], zip_bytes=0, entries=tuple(sorted(sizes.items())),
        by_digest=tuple((f"{row.place}/{row.file}", row.bytes) for row in contents.external_files))
    show(planned)
    # Under another name until it has been verified: a file called as asked is one that passed.
    unverified = out.with_name(f".{out.name}.unverified")
    try:
        write_zip(unverified, documents, contents.sealed_files)
        size = unverified.stat().st_size
        _refuse_failing([unverified])
        # Rename the zip last, so that a visible zip always has its page next to it.
        atomic.write_bytes(planned.page, verify_page())
        unverified.rename(out)
    finally:
        unverified.unlink(missing_ok=True)
    return replace(planned, zip_bytes=size)


def _refuse_failing(paths: Sequence[Path]) -> None:
    for path in paths:
        result = verify(path)
        if failed := [f"{check.id}: {check.text}" for check in result.checks if check.verdict == "failed"]:
            raise RecordError(f"{path} does not verify, so it is not packed: {'; '.join(failed[:3])}")


def _documents(contents: Contents, weights: str) -> dict[str, bytes]:
    """Bytes of the pack's own files, which its seal covers, by path: all files that are not sealed in a run."""
    documents = dict(contents.unsealed_files)
    manifest_and_overrides = {}
    for unit_path, run in contents.runs.items():
        documents |= data_manifests(run) | sample_data(run)
        # A run that only a recorder wrote has no overrides.
        file = run.path / OVERRIDES
        manifest_and_overrides[unit_path] = (run.manifest, loads(file.read_bytes()) if file.is_file() else {})
    documents[README] = pack_readme(version("workings"), contents.units, manifest_and_overrides,
                                    by_digest=bool(contents.external_files)).encode("utf-8")
    pack_list = PackList.model_validate({
        "schema": "pack/1", "workings_version": version("workings"), "weights": weights,
        "units": [{"place": place, "root": root} for place, root in sorted(contents.units.items())],
        "by_digest": sorted(contents.external_files, key=lambda row: (row.place, row.file))})
    return {**documents, PACK: line(pack_list.model_dump(by_alias=True))}
