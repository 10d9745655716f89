"""Importing streams: a million records in bounded memory; and all of GSM8K arrives and is checked.

Each import runs in a child process, whose peak resident memory is read before and after. One record in a hundred is
bad on purpose; counts must add up. GSM8K is read from `../shared/data/gsm8k` next to the repository where it is there.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tools.result_file import ROOT, write_result

GSM8K = ROOT.parent / "shared" / "data" / "gsm8k"

CHILD = """
import json, re, sys
from pathlib import Path
from workings.data.importing.run import ImportRequest, import_records
from workings.data.importing.sources import open_file
def peak():
    # not ru_maxrss: that one is inherited from the parent
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text()).group(1))
source, out = Path(sys.argv[1]), Path(sys.argv[2])
source_opened = open_file(source)
before = peak()
result = import_records(source_opened, out, ImportRequest(format="gsm8k", labels={}, on_error="skip", force=True))
after = peak()
print(json.dumps({"read": result.read, "written": result.written, "rejected": result.rejected,
                  "growth_bytes": (after - before) * 1024}))
"""


def imported(path: Path, out: Path) -> dict[str, Any]:
    """Import a file in a child; counts, and how far its peak memory grew."""
    command = [sys.executable, "-c", CHILD, str(path), str(out)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout)) | {"file_bytes": path.stat().st_size}


def record(number: int) -> str:
    """One record; every hundredth has no answer."""
    after = number + 1
    answer = "" if number % 100 == 99 else f"It is {number}+1 = <<{number}+1={after}>>{after}.\\n#### {after}"
    return f'{{"question": "What comes after {number}?", "answer": "{answer}"}}'


def million(count: int, folder: Path) -> dict[str, Any]:
    """The same records as lines, as one array and as parquet."""
    import pyarrow as arrow
    from pyarrow import parquet

    lines, array, table = folder / "lines.jsonl", folder / "array.json", folder / "table.parquet"
    with lines.open("w") as one, array.open("w") as two:
        two.write("[")
        for number in range(count):
            one.write(record(number) + "\n")
            two.write(("," if number else "") + record(number))
        two.write("]")
    with parquet.ParquetWriter(table, arrow.schema([("question", arrow.string()), ("answer", arrow.string())])) as rows:
        for start in range(0, count, 10_000):
            chunk = [json.loads(record(number)) for number in range(start, min(start + 10_000, count))]
            rows.write_table(arrow.Table.from_pylist(chunk, rows.schema))
    return {path.suffix[1:]: imported(path, folder / "out.jsonl") for path in (lines, array, table)}


def gsm8k(folder: Path) -> dict[str, Any]:
    """Both splits imported and checked, train against test."""
    from workings.data.checking.findings import read_tolerantly
    from workings.data.checking.run import check
    from workings.data.traces import trace_from_json
    from workings.scoring.items import read_items

    found: dict[str, Any] = {}
    for split in ("train", "test"):
        found[split] = imported(GSM8K / f"{split}.jsonl", folder / f"{split}.jsonl")
        found[split].pop("growth_bytes")
        questions = {item.prompt: item.id for item in read_items(GSM8K / "test.jsonl")} if split == "train" else {}
        report = check(read_tolerantly(folder / f"{split}.jsonl", trace_from_json), questions)
        found[split]["findings"] = report.counts
    return found


def main() -> int:
    """Measure, write the result file, print one line; 1 if counts do not add up."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=1_000_000, help="records of the large files")
    count = parser.parse_args().n
    with tempfile.TemporaryDirectory() as folder:
        large = million(count, Path(folder))
        whole = gsm8k(Path(folder)) if GSM8K.is_dir() else {"absent": "no ../shared/data/gsm8k next to the repository"}
    bad = count // 100
    right = all(facts["read"] == count and facts["rejected"] == bad and facts["written"] == count - bad
                for facts in large.values())
    write_result(packages=["pyarrow", "numpy"], words=f"--n {count}",
                 values={"records": count, "imports": large, "gsm8k": whole})
    growth = ", ".join(f"{name} {facts['growth_bytes'] / 2**20:.0f} MiB" for name, facts in large.items())
    print(f"{count:,} records, growth of peak memory: {growth}; counts {'add up' if right else 'DO NOT add up'}")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
