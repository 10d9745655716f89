"""Bytes a second at which a record is verified, beside reading the same bytes and hashing them.

A run with one large checkpoint file (1 GiB unless told otherwise) is sealed and verified at level 0; reading the file
and SHA-256 over memory are measured the same way, so that the distance to both limits shows. Exits with 3 without a
result when other work keeps the machine busy (load average above half of its cores).
"""

import argparse
import hashlib
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.record import synthetic
from tools.result_file import load_average, usable_cores, write_result
from workings.evidence.verify import verify
from workings.record.writer import RunWriter

RESULT = Path(__file__).parent / "results" / "hash_speed.json"
CHUNK = 1 << 20


def main() -> int:
    """Measure, write the result file, print one line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mebibytes", type=int, default=1024, help="size of the checkpoint's file")
    asked = parser.parse_args()
    load = load_average()
    if load > usable_cores() / 2:
        print(f"not measured: load average {load:.1f} on {usable_cores()} cores")
        return 3
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder, "tiny")
        sealing = _seconds(lambda: _seal(run, asked.mebibytes))
        large = run / "checkpoints" / "step_000006" / "model.safetensors"
        reading = _seconds(lambda: _read(large))
        hashing = _seconds(lambda: _hash(asked.mebibytes))
        seen: list[int] = []
        verifying = _seconds(lambda: verify(run, level=0, progress=seen.append))
    size = sum(seen)
    values = {"bytes": size, "progress_calls": len(seen),
              "verify_mib_per_second": round(size / verifying / 2**20, 1),
              "read_mib_per_second": round(size / reading / 2**20, 1),
              "sha256_mib_per_second": round(size / hashing / 2**20, 1),
              "save_and_seal_seconds": round(sealing, 2), "verify_seconds": round(verifying, 2)}
    write_result(RESULT, what="Bytes a second at which a record is verified (files in the page cache).",
                 command=f"python -m benchmarks.hash_speed --mebibytes {asked.mebibytes}", values=values,
                 load_before=load)
    print(f"verify {values['verify_mib_per_second']} MiB/s, SHA-256 alone {values['sha256_mib_per_second']} MiB/s")
    return 0


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _seal(run: Path, mebibytes: int) -> None:
    writer = RunWriter.create(run, keep_last=1)
    synthetic.begin(writer)
    for step in range(1, synthetic.STEPS + 1):
        synthetic.take_step(writer, step, save_every=synthetic.STEPS + 1)
    writer.checkpoints.save(synthetic.STEPS, lambda folder: _large(folder / "model.safetensors", mebibytes), {})
    synthetic.finish(writer)


def _large(path: Path, mebibytes: int) -> None:
    size = mebibytes * CHUNK
    header = f'{{"w":{{"dtype":"U8","shape":[{size}],"data_offsets":[0,{size}]}}}}'.encode()
    with path.open("wb") as stream:
        stream.write(struct.pack("<Q", len(header)) + header)
        for number in range(mebibytes):
            stream.write(number.to_bytes(4, "little") * (CHUNK // 4))


def _read(path: Path) -> None:
    with path.open("rb", buffering=0) as stream:
        while stream.read(CHUNK):
            pass


def _hash(mebibytes: int) -> None:
    digest, data = hashlib.sha256(), bytes(CHUNK)
    for _ in range(mebibytes):
        digest.update(data)


if __name__ == "__main__":
    sys.exit(main())
