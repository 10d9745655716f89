"""Runs to be packed, and packs that are opened, changed and sealed again."""

import zipfile
from collections.abc import Callable
from pathlib import Path

from tests.record import synthetic
from workings.evidence.attest import keys
from workings.evidence.attest.sign import sign_run
from workings.record import attempts, canonical
from workings.record.digest import bytes_digest, file_digest
from workings.record.seal import parse_seal, sums_text

EXAMPLE = Path(__file__).parents[2] / "examples" / "runs" / "quickstart" / "runs.zip"


def two_runs(folder: Path) -> Path:
    """Two evaluated runs, `b` with a signature."""
    for name in ("a", "b"):
        run = synthetic.sealed_run(folder / name, name=name)
        synthetic.add_evaluation(run, "items")
    for name in ("a", "b"):  # the recorder of these runs calls both tiny
        attempts.append(folder, {"run": name})
    keys.new_key(folder.parent / "key")
    sign_run(folder / "b", folder.parent / "key")
    return folder


def unpacked(archive: Path, to: Path) -> Path:
    """The folder that a pack was unpacked to."""
    with zipfile.ZipFile(archive) as source:
        source.extractall(to)
    return to


def seal_again(folder: Path) -> None:
    """Sums and seal of the pack's own files, as they are now; the runs in it stay as they are."""
    seal = parse_seal((folder / "SEAL.json").read_bytes())
    own = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    runs = {name for name in own if name.startswith("runs/") and name.count("/") > 1 and "/attest/" not in name}
    sums = sums_text({name: file_digest(folder / name) for name in own - runs - {"SHA256SUMS", "SEAL.json"}})
    (folder / "SHA256SUMS").write_bytes(sums)
    (folder / "SEAL.json").write_bytes(canonical.line(seal | {"root": bytes_digest(sums)}))


def overwritten(mark: bytes, offset: int, new: bytes) -> Callable[[bytearray], None]:
    """Overwrite bytes at an offset from the last place of a mark."""
    def change(data: bytearray) -> None:
        at = data.rindex(mark) + offset
        data[at:at + len(new)] = new
    return change
