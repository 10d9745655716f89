"""Two JAX processes that are killed at random points end in order, and the run goes on to the same bit.

Each trial kills one of the two with SIGKILL, between the start of the processes and the last answer, and starts both
again with `--auto-resume`. The other one has to exit with 130 and say one sentence. After a few kills the run goes on
to its end, and its metrics, weights and answers have to be those of a run that was never killed.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests import children
from tests.distributed import killing
from tests.distributed.test_kills import SMALL
from tests.distributed.test_process_group import RECIPE
from tests.runs.runs_helpers import write_recipe
from tools.result_file import write_result

RESULT = Path(__file__).with_suffix(".json")
KILLS_OF_A_RUN = 4


def start(*arguments: object, cwd: Path, environment: dict[str, str]) -> Any:
    """A process that is forked from one with all imports."""
    return children.start(list(map(str, arguments)), cwd=cwd, environment=dict(os.environ) | environment)


def main() -> int:
    """Run the trials, write the result file, print one line; 1 if anything was not as it must be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=40, help="number of kills")
    asked = parser.parse_args()
    overrides = (*SMALL, "training.steps=16")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_recipe(folder, RECIPE)
        _, problems = killing.kill_and_go_on(start, folder, "whole", [], *overrides)
        whole = killing.contents(folder / "whole")
        points = killing.random_points(17, asked.n)
        kills = 0
        for first in range(0, asked.n, KILLS_OF_A_RUN):
            run = f"run-{first}"
            some, wrong = killing.kill_and_go_on(start, folder, run, points[first:first + KILLS_OF_A_RUN], *overrides)
            kills += some
            problems += wrong + killing.problems_at_end(folder / run, whole)
            print(f"{kills} kills, {len(problems)} problems", file=sys.stderr, flush=True)
            write_result(RESULT, what="Two JAX processes of one run, killed at random points and resumed.",
                         packages=["jax"], command=f"python -m proof.kills --n {asked.n}",
                         values={"points": asked.n, "kills": kills, "runs": first // KILLS_OF_A_RUN + 1,
                                 "problems": len(problems), "first_problems": problems[:10]})
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
