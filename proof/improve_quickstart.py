"""What `workings improve` finds on the quickstart's recipe, shown 100 traces, and how long it takes."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.result_file import write_result
from workings.runs.quickstarts.tiny import make_data

SECONDS = 300
"""A demonstration on two CPU cores may take so long."""
TRACES, PROMPTS, SEED = 100, 1_000, 17
"""Traces of the quickstart's 500 that are shown (the model is then right on one sum in ten), and further questions."""


def command(data: Path) -> list[str]:
    """Makes the data, and returns the words of the command without its output folder."""
    make_data(data, SEED, traces=TRACES, prompts=PROMPTS)
    return [sys.executable, "-m", "workings", "improve", "quickstart", "--prompts", str(data / "prompts.jsonl"),
            f"seed={SEED}", f"tokenizer={data / 'tokenizer'}", f"data.traces={data / 'traces.jsonl'}",
            "evaluation.traces=none", f"evaluation.items={data / 'items.jsonl'}", "evaluation.samples=0", "--json"]


def main() -> int:
    """Run it, write the result file, print its sentence; 1 if it does not improve or takes too long."""
    with tempfile.TemporaryDirectory() as name:
        done = subprocess.run([*command(Path(name, "data")), "--rounds", "3", "--out",
                               str(Path(name, "improved"))], stdout=subprocess.PIPE, text=True, check=True)
        told = json.loads(done.stdout.splitlines()[-1])
        verified = subprocess.run([sys.executable, "-m", "workings", "verify", str(Path(name, "improved"))],
                                  stdout=subprocess.DEVNULL, check=False)
    paths = ("runs", "rounds")
    rounds = [{key: value for key, value in each.items() if key not in ("run", "unit")} for each in told["rounds"]]
    write_result(packages=["jax", "jaxlib", "numpy"],
                 values={**{key: value for key, value in told.items() if key not in paths}, "rounds": rounds,
                         "verifies": verified.returncode == 0})
    print(told["sentence"])
    return 0 if told["verdict"] == "better" and told["seconds"] <= SECONDS and verified.returncode == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
