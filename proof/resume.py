"""A training run that is killed at any moment ends, once resumed, bit for bit as one that was not.

A child process (a fork of one that has imported everything, `tests/children.py`) trains a tiny Gemma 3 with the
JAX engine on the CPU (six updates of two micro batches, three checkpoints) and kills itself with SIGKILL right before
a call that changes the run's files; at a write, half of the bytes go out first. Then the run is resumed (in every
fourth trial the resuming process is killed, too). At the end the metrics, every tensor of every checkpoint, the data
position and the recorded rows must be those of a run that was never killed, bit for bit, and the run must verify. The
kill points are spread evenly over all calls, most of them within a save. Two settings take turns; one of them rounds
stochastically.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

from tests import children
from tests.runs import killed
from tools.result_file import write_result


def main() -> int:
    """Run the trials, write the result file, print one line; 1 if anything was not as it must be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=100, help="number of kill points")
    count = parser.parse_args().n
    problems: list[str] = []
    second, saving, calls = 0, 0, {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        recipe = killed.write_recipe(folder)
        compiled = os.environ | {
            "JAX_PLATFORMS": "cpu", "JAX_COMPILATION_CACHE_DIR": str(folder / "compiled"),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0", "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1"}
        start = killed.in_fork(lambda *words, cwd, environment: children.start(
            words, cwd=cwd, environment=compiled | environment))
        straight: dict[str, dict[str, object]] = {}
        for number, (setting, words) in enumerate(killed.SETTINGS.items()):
            out = folder / f"straight-{number}"
            done = killed.train(recipe, out, words, start)
            if done.returncode != 0:
                raise RuntimeError(done.stderr)
            straight[setting] = killed.contents(out)
            calls[setting] = out.with_name(f"{out.name}.calls").read_text().splitlines()
        for index in range(count):
            setting, words = list(killed.SETTINGS.items())[index % len(killed.SETTINGS)]
            total = len(calls[setting])
            point = 1 + round(index * (total - 1) / (count - 1))
            saving += "/.step_" in calls[setting][point - 1]
            out = folder / f"trial-{index}"
            first = killed.train(recipe, out, words, start, str(point))
            found = [] if killed.was_killed(first) else [f"not killed: {first.stderr[-300:]}"]
            if index % 4 == 3:  # 37 has no common factor with anything here
                other = str(1 + index * 37 % total)
                second += killed.was_killed(killed.train(recipe, out, words, start, other))
            found += killed.resume(recipe, out, words, start) + killed.problems(out, straight[setting])
            problems += [f"{setting}, killed before call {point} ({calls[setting][point - 1]}): {what}"
                         for what in found]
            print(f"{index + 1}/{count}, {len(problems)} problems", file=sys.stderr)
    write_result(packages=["jax", "jaxlib", "numpy"], words=f"--n {count}",
                 values={"kill_points": count, "while_saving": saving, "killed_again_while_resuming": second,
                         "settings": list(killed.SETTINGS), "calls_in_all": {s: len(c) for s, c in calls.items()},
                         "steps": 6, "checkpoints_compared": "every tensor, position and row, bit for bit",
                         "problems": len(problems), "first_problems": problems[:10]})
    print(f"{count} kill points, {saving} while saving, {second} killed again, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
