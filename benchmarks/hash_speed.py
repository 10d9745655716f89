"""What verifying a large record costs next to hashing the same bytes: nothing but the hash, in constant memory.

A run with one large checkpoint file is sealed and verified at level 0. Processor seconds are compared, because they do
not depend on what else the machine does; wall-clock seconds are written down too where it is idle. The size is cut to
what the disk has room for.
"""

import argparse
import hashlib
import resource
import shutil
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.record import synthetic
from tools.result_file import load_average, usable_cores, write_result
from workings.evidence.verify import verify
from workings.record.digest import file_digest
from workings.record.writer import RunWriter

RESULT = Path(__file__).parent / "results" / "hash_speed.json"
CHUNK = 1 << 20
BUSY = "other work kept the machine busy"


def main() -> int:
    """Measure, write the result file, print one line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mebibytes", type=int, default=10240, help="size of the checkpoint's file")
    asked = parser.parse_args()
    load = load_average()
    with tempfile.TemporaryDirectory() as folder:
        room = shutil.disk_usage(folder).free // 2**20 // 3
        mebibytes = min(asked.mebibytes, room)
        run = Path(folder, "tiny")
        sealing = _cost(lambda: _seal(run, mebibytes))
        large = run / "checkpoints" / "step_000006" / "model.safetensors"
        reading = _cost(lambda: _read(large))
        hashing = _cost(lambda: _hash(mebibytes))
        hashing_the_file = _cost(lambda: file_digest(large))
        before, hashed = _peak_bytes(), sum(path.stat().st_size for path in run.rglob("*") if path.is_file())
        verifying = _cost(lambda: verify(run, level=0))
        grown = _peak_bytes() - before
    gib = hashed / 2**30
    idle = max(load, load_average()) <= usable_cores() / 2
    values = {
        "bytes": hashed, "peak_memory_growth_bytes": grown,
        "processor_seconds_per_gib": {"verify": round(verifying[1] / gib, 3), "hash_the_file": round(
            hashing_the_file[1] / gib, 3), "sha256_of_memory": round(hashing[1] / gib, 3),
            "read": round(reading[1] / gib, 3), "save_and_seal": round(sealing[1] / gib, 3)},
        "verify_over_hash_the_file": round(verifying[1] / hashing_the_file[1], 3),
        "wall_seconds": {"verify": round(verifying[0], 2), "hash_the_file": round(hashing_the_file[0], 2),
                         "read": round(reading[0], 2)} if idle else {"absent": BUSY},
    }
    write_result(RESULT, what="What verifying a large record costs next to hashing the same bytes.",
                 command=f"python -m benchmarks.hash_speed --mebibytes {asked.mebibytes}", values=values,
                 load_before=load)
    print(f"{gib:.2f} GiB: verify takes {values['verify_over_hash_the_file']} times the processor time of one hash, "
          f"and {grown / 2**20:.1f} MiB of memory")
    return 0


def _cost(work: Callable[[], object]) -> tuple[float, float]:
    """Wall-clock and processor seconds."""
    started, used = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - started, time.process_time() - used


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _seal(run: Path, mebibytes: int) -> None:
    writer = RunWriter.create(run)
    writer.checkpoints.keep_last = 1
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
