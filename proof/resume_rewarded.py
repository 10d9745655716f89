"""A run that learns from rewards and is killed at any moment, half of them while it draws, ends bit for bit the same.

As `proof.resume`, with completions that the model draws itself and a reward of a person's own: six updates on either
engine, with one update a rollout (Dr. GRPO), and with two and dynamic sampling (DAPO), where every second update goes
on in the middle of a rollout. A process is killed before a rollout is drawn, when it is drawn and not rewarded, when
it is rewarded and not yet learned from, and before any call that changes the run's files. Beside what `proof.resume`
compares, every rollout must be the same: tokens, log probabilities, rewards, advantages.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

from tests.fork_server import Server
from tests.runs import killed
from tools.result_file import write_result

RESULT = Path(__file__).parent / "resume_rewarded.json"
SETTINGS = {f"{engine}, {name}": (f"engine={engine}", *words) for engine in ("jax", "torch")
            for name, words in killed.REWARDED.items()}


def points(calls: list[str], count: int) -> list[int]:
    """Numbers of calls to be killed before: half of those while drawing, the rest spread over all others."""
    drawing = [number for number, call in enumerate(calls, start=1) if call.startswith("draw ")]
    other = [number for number, call in enumerate(calls, start=1) if not call.startswith("draw ")]

    def spread(numbers: list[int], wanted: int) -> list[int]:
        return [numbers[round(index * (len(numbers) - 1) / max(1, wanted - 1))] for index in range(wanted)]

    return spread(drawing, count // 2) + spread(other, count - count // 2)


def main() -> int:
    """Run the trials, write the result file, print one line; 1 if anything was not as it must be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=20, help="number of kill points, over all settings")
    count = parser.parse_args().n
    problems: list[str] = []
    drawing, trials, calls = 0, 0, {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        recipe = killed.write_rewarded(folder)
        environment = os.environ | killed.compiled_in(folder / "compiled") | {"JAX_PLATFORMS": "cpu"}
        server = Server(folder, os.getpid())
        start = killed.in_fork(lambda *words, cwd: server.start(words, cwd=cwd, environment=environment))
        for number, (setting, words) in enumerate(SETTINGS.items()):
            out = folder / f"straight-{number}"
            done = killed.train(recipe, out, words, start)
            if done.returncode != 0:
                raise RuntimeError(done.stderr)
            straight = killed.contents(out)
            calls[setting] = out.with_name(f"{out.name}.calls").read_text().splitlines()
            for point in points(calls[setting], count // len(SETTINGS)):
                trials += 1
                call = calls[setting][point - 1]
                drawing += call.startswith("draw ")
                trial = folder / f"trial-{trials}"
                first = killed.train(recipe, trial, words, start, str(point))
                found = [] if killed.was_killed(first) else [f"not killed: {first.stderr[-300:]}"]
                found += killed.resume(recipe, trial, words, start) + killed.problems(trial, straight)
                problems += [f"{setting}, killed before call {point} ({call}): {what}" for what in found]
                print(f"{trials}/{count}, {len(problems)} problems", file=sys.stderr)
    write_result(RESULT, what="Runs that learn from rewards, killed with SIGKILL, resumed, and compared bit for bit.",
                 command=f"python -m proof.resume_rewarded --n {count}", packages=["jax", "jaxlib", "numpy", "torch"],
                 values={"kill_points": trials, "while_drawing": drawing, "settings": list(SETTINGS), "steps": 6,
                         "calls_in_all": {s: len(c) for s, c in calls.items()},
                         "compared": "every rollout, metric, tensor, position and prompt, bit for bit",
                         "problems": len(problems), "first_problems": problems[:10]})
    print(f"{trials} kill points, {drawing} while drawing, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
