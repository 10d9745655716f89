"""The first ten minutes of a newcomer: a fresh clone, an empty environment, `make quickstart`'s two parts, timed.

    python -m proof.quickstart

Clones the repository as it is committed, installs what `make quickstart` installs, runs `workings quickstart`, and
verifies the runs. Writes `proof/quickstart.json`, and what the terminal showed to `proof/quickstart.txt`. Exits with
1 where a goal is missed: 10 minutes in all, 6 without installation, p < 0.001, and no fewer facts known than before.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tools.result_file import write_result

ROOT = Path(__file__).resolve().parent.parent
GOALS = {"seconds_in_all": 600, "seconds_without_installation": 360, "p_value": 0.001}


def main() -> int:
    """Run it and write the result; 0 where every goal is reached."""
    with tempfile.TemporaryDirectory() as place:
        clone, out = Path(place) / "workings", Path(place) / "out"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        started = time.perf_counter()
        subprocess.run(["make", ".venv/.installed-core"], cwd=clone, check=True, stdout=sys.stderr)
        installed = time.perf_counter() - started
        done = subprocess.run([".venv/bin/workings", "quickstart", "--out", str(out)], cwd=clone, check=True, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        seconds = time.perf_counter() - started - installed
        verified = subprocess.run([".venv/bin/workings", "verify", str(out)], cwd=clone, check=False, text=True,
                                  capture_output=True)
        found = json.loads((out / "result.json").read_text(encoding="utf-8"))
    terminal = f"$ workings quickstart\n{done.stdout}\n$ workings verify runs/quickstart\n{verified.stdout}"
    Path(__file__).with_suffix(".txt").write_text(terminal.replace(str(out), "runs/quickstart"))
    values = {**found, "runs": ["with-steps", "answer-only"], "report": "report.html",
              "installation_seconds": round(installed, 1), "seconds_without_installation": round(seconds, 1),
              "seconds_in_all": round(installed + seconds, 1), "verified": verified.returncode == 0, "goals": GOALS}
    write_result(packages=["torch", "transformers", "numpy"], values=values)
    reached = (values["verified"] and values["facts_after"] >= values["facts_before"]
               and all(values[name] <= goal for name, goal in GOALS.items()))
    print(json.dumps(values, indent=2))
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
