"""Progress of hashing: silent for small records, a line now and then for large ones."""

from pathlib import Path

from tests.record import synthetic
from workings.record.digest import SMALL_BYTES, HashProgress
from workings.record.writer import RunWriter


def test_a_line_now_and_then() -> None:
    now, said = [0.0], []
    progress = HashProgress(said.append, 4 * SMALL_BYTES, clock=lambda: now[0])
    for second in range(1, 9):
        now[0] = second
        progress(SMALL_BYTES // 2)
    assert said == ["hashed 0.06 of 0.25 GiB (32 MiB/s)", "hashed 0.12 of 0.25 GiB (32 MiB/s)",
                    "hashed 0.19 of 0.25 GiB (32 MiB/s)", "hashed 0.25 of 0.25 GiB (32 MiB/s)"]
    assert progress.done_bytes == 4 * SMALL_BYTES


def test_small_records_are_hashed_in_silence() -> None:
    now, said = [0.0], []
    progress = HashProgress(said.append, clock=lambda: now[0])
    now[0] = 60.0
    progress(SMALL_BYTES - 1)
    assert said == []
    progress(1)
    assert said == ["hashed 0.06 GiB (1 MiB/s)"]


def test_sealing_counts_every_byte(tmp_path: Path) -> None:
    writer = RunWriter.create(tmp_path / "tiny")
    synthetic.begin(writer)
    synthetic.take_step(writer, 1, save_every=1)
    writer.write_text("README.md", "# tiny\n\nStatus: **interrupted**.\n")
    seen: list[int] = []
    run = writer.seal("interrupted", synthetic.manifest("interrupted"), seen.append)
    assert sum(seen) == sum(path.stat().st_size for path in run.rglob("*")
                            if path.is_file() and path.name not in ("SHA256SUMS", "SEAL.json"))
