"""Hostile records take no more than 512 MiB and 30 seconds, no matter who reads them: `verify`, the page, the report.

Each record is read in its own child: `verify` by the command itself; the page by its application, which is asked
for the list, the run in each tab, every JSON twin and the exported report. Seconds are of processor time, of the whole
command and of the slowest answer of the page; the memory is the largest of any process of the child. A good run
is first for comparison, and one of many plain completions says how long scoring those again takes. What was read is
kept in `build/denial.json`: the same command resumes after it, as long as no line of the product and of the records
has changed.
"""

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.evidence.denials import DENIALS, ROLLOUT_DENIALS, Denial, completion
from tests.evidence.rewarded import rewarded_run
from tests.record import synthetic
from tools.result_file import write_result

ROOT = Path(__file__).parents[1]
RESULT, SO_FAR = ROOT / "proof" / "denial.json", ROOT / "build" / "denial.json"
MEBIBYTES, SECONDS, PATIENCE_SECONDS = 512, 30, 300
MANY, PLAIN_COMPLETIONS = "two thousand plain completions", 2_000
PLAIN = """<reasoning>Natalia sold clips to 48 friends in April, and half as many in May: 48 / 2 = 24.
In June she sold 5 less than in May, which makes 24 - 5 = 19 clips.
Altogether she sold 48 + 24 + 19 = 91 clips. As a check, 91 - 19 = 72 and 72 - 24 = 48, as it should be.
Each clip costs 2 dollars, so that she took 91 * 2 = 182 dollars, of which a tenth, 18.2 dollars, went to her brother.
</reasoning>
<answer>182</answer>"""
LAUNCH = """
import json, os, resource, sys
# Its own small process: the mark of memory of a child begins at what its parent held.
child = os.posix_spawn(sys.executable, [sys.executable, *sys.argv[1:]], os.environ)
_, status, used = os.wait4(child, 0)
all_used = resource.getrusage(resource.RUSAGE_CHILDREN)
print()
print(json.dumps([os.waitstatus_to_exitcode(status), all_used.ru_utime + all_used.ru_stime, all_used.ru_maxrss]))
"""
PAGE = """
import json, logging, sys, time
from pathlib import Path
logging.disable()
from starlette.testclient import TestClient
from workings.ui.app import make_app
from workings.ui.tabs import TABS
name = sys.argv[2]
page = TestClient(make_app(Path(sys.argv[1]), token="t", port=1), base_url="http://127.0.0.1:1",
                  headers={"authorization": "Bearer t"})
places = ["/", f"/api/run/{name}", f"/api/live/{name}", f"/export/run/{name}"]
places += [f"/run/{name}?tab={key}" for key in TABS]
places += [f"/api/{key}/{name}" for key, tab in TABS.items() if tab.answer]
slowest, refused = 0.0, 0
for place in places:
    begun = time.process_time()
    answer = page.get(place)
    slowest = max(slowest, time.process_time() - begun)
    assert answer.status_code < 500, (place, answer.status_code)
    refused += answer.status_code >= 400
print(json.dumps([slowest, refused, len(places)]))
"""


def main() -> int:
    """Read every record, write the result file, print the table; 1 where a bound does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="records whose name holds this text")
    asked = parser.parse_args()
    values: dict[str, Any] = {}
    before = {} if asked.only else _so_far()
    with tempfile.TemporaryDirectory(prefix="workings-denial-") as folder:
        plain, drawn = Path(folder, "plain"), Path(folder, "drawn")
        synthetic.add_evaluation(synthetic.sealed_run(plain / "tiny"))
        rewarded_run(drawn / "tiny")
        records = {"a good run": (plain, _nothing), MANY: (plain, completion(PLAIN, PLAIN_COMPLETIONS)),
                   **{name: (plain, deny) for name, deny in DENIALS.items()},
                   "a good run of rewards": (drawn, _nothing),
                   **{name: (drawn, deny) for name, deny in ROLLOUT_DENIALS.items()}}
        for name, (pristine, deny) in records.items():
            if asked.only not in name:
                continue
            values[name] = before.get(name) or read(pristine, Path(folder, "runs"), deny)
            print(f"{name[:50]:50}", *(f"{reader}: {found['seconds']:5.1f} s {found['mebibytes']:5} MiB"
                                       for reader, found in values[name].items()), sep="  ", flush=True)
            if not asked.only:
                SO_FAR.parent.mkdir(exist_ok=True)
                SO_FAR.write_text(json.dumps({"of": _code(), "records": values}))
    problems = [f"{name}, {reader}: {found}" for name, readers in values.items() for reader, found in readers.items()
                if found["mebibytes"] > MEBIBYTES or found["seconds"] > SECONDS or found["exit"] not in (0, 1)]
    largest = {reader: {unit: max(found[reader][unit] for found in values.values())
                        for unit in ("seconds", "mebibytes")} for reader in ("verify", "page")}
    if not asked.only:
        seconds = values[MANY]["verify"]["seconds"] - values["a good run"]["verify"]["seconds"]
        write_result(values={
            "tried": len(values) - 3, "bounds": {"seconds": SECONDS, "mebibytes": MEBIBYTES}, "largest": largest,
            "scored": {"completions": PLAIN_COMPLETIONS, "characters": len(PLAIN), "seconds": round(seconds, 1)},
            "beyond": problems, "records": values})
        SO_FAR.unlink()
    print(*problems, sep="\n")
    return 1 if problems else 0


def read(pristine: Path, folder: Path, deny: Denial) -> dict[str, dict[str, Any]]:
    """What verify and the page took of a record."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(pristine, folder)
    place = deny(folder / "tiny")
    exit_code, seconds, kibibytes, said = launched("-m", "workings", "verify", str(place), "--json")
    # A traceback ends with 1 as well.
    exit_code = exit_code if said.startswith("{") else -1
    found = {"verify": {"seconds": round(seconds, 1), "mebibytes": kibibytes >> 10, "exit": exit_code}}
    exit_code, _, kibibytes, said = launched("-c", PAGE, str(folder), "tiny")
    slowest, refused, asked = json.loads(said) if exit_code == 0 else (0.0, 0, 0)
    found["page"] = {"seconds": round(slowest, 1), "mebibytes": kibibytes >> 10, "exit": exit_code,
                     "refused": refused, "asked": asked}
    return found


def launched(*words: str) -> tuple[int, float, int, str]:
    """Exit code, processor seconds, KiB and last line of a Python process; a code of -9 where it took too long."""
    try:
        done = subprocess.run([sys.executable, "-S", "-c", LAUNCH, *words], capture_output=True, text=True, check=False,
                              timeout=PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        return -9, float(PATIENCE_SECONDS), 0, ""
    *said, last = done.stdout.splitlines()
    code, seconds, kibibytes = json.loads(last)
    if code not in (0, 1):
        print(done.stderr[-2000:], file=sys.stderr)
    return code, seconds, kibibytes, next((line for line in reversed(said) if line.strip()), "")


def _nothing(run: Path) -> Path:
    return run


def _so_far() -> dict[str, Any]:
    """What an earlier start has read of these records by this code."""
    found = json.loads(SO_FAR.read_text()) if SO_FAR.is_file() else {}
    return found["records"] if found.get("of") == _code() else {}


def _code() -> str:
    files = [*sorted((ROOT / "src").rglob("*.py")), ROOT / "tests/evidence/denials.py", Path(__file__)]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
