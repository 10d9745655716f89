"""Killing a writer at chosen moments and judging what it leaves behind. Used by the tests and by `proof/`."""

import json
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tests.record import synthetic
from workings.evidence.verify import verify
from workings.record import jsonl
from workings.record.checkpoints import CheckpointStore
from workings.record.layout import METRICS, partial_path
from workings.record.reader import RunRecord

ROOT = Path(__file__).resolve().parents[2]
SAVE_EVERY = 2


def write_input(path: Path) -> Path:
    """What the child writes: real lines and a manifest that agrees with them."""
    texts = {"config/recipe.yaml": "name: tiny\nseed: 7\n",
             "config/resolved.json": json.dumps(synthetic.CONFIG),
             "config/overrides.json": '{"origin":"tiny.yaml","overrides":[]}',
             "env/env_info.json": json.dumps(synthetic.ENVIRONMENT),
             "env/device_checks.json": json.dumps(synthetic.DEVICE_CHECKS),
             "data/digests.json": json.dumps(synthetic.data_digests()),
             "data/rows.jsonl": "".join(json.dumps(row) + "\n" for row in synthetic.row_set().index)}
    path.write_text(json.dumps({"texts": texts, "steps": synthetic.steps(), "save_every": SAVE_EVERY,
                                "manifest": synthetic.manifest().to_json()}))
    return path


@dataclass
class Child:
    """How one child ended, and what it had acknowledged."""

    returncode: int
    steps: int = 0
    saved: int = 0
    sealed: bool = False
    calls: list[str] = field(default_factory=list)
    stderr: str = ""


def run_child(out: Path, kill_at: int, source: Path) -> Child:
    """Let a child write, killed at its ``kill_at``-th call (0: never)."""
    done = subprocess.run([sys.executable, "-m", "tests.record.crash_child", str(out), str(kill_at), str(source)],
                          cwd=ROOT, capture_output=True, text=True, check=False)
    child = Child(done.returncode, stderr=done.stderr)
    for line in done.stdout.splitlines():
        word, _, number = line.partition(" ")
        if word == "step":
            child.steps = int(number)
        elif word == "saved":
            child.saved = int(number)
        elif word == "sealed":
            child.sealed = True
    if done.returncode == 0:
        child.calls = done.stderr.splitlines()
    return child


def problems_after_kill(out: Path, child: Child) -> list[str]:
    """What must hold at once after a kill: nothing acknowledged is lost, and nothing half-done looks complete."""
    if child.returncode not in (0, -signal.SIGKILL):
        return [f"ended with {child.returncode} instead of the kill: {child.stderr[-500:]}"]
    if out.exists():
        found = verify(out, level=1)
        return [f"a final folder that does not verify: {check.id}: {check.text}" for check in found.checks
                if check.verdict == "failed"]
    problems = ["sealed was acknowledged, and there is no final folder"] if child.sealed else []
    partial = partial_path(out)
    if not partial.exists():
        return [*problems, *(["acknowledged steps, and no folder"] if child.steps else [])]
    rows, _ = jsonl.read(partial / METRICS)
    if [row["step"] for row in rows][:child.steps] != list(range(1, child.steps + 1)):
        problems.append(f"{child.steps} steps acknowledged, {len(rows)} lines there")
    checkpoint, _ = CheckpointStore(partial / "checkpoints").latest_valid()
    if (checkpoint.step if checkpoint else 0) < child.saved:
        problems.append(f"checkpoint {child.saved} acknowledged, the newest good one is {checkpoint}")
    return problems


def problems_at_end(out: Path) -> list[str]:
    """What must hold once the run was resumed to its end: as if it had never been killed."""
    if not out.exists() or partial_path(out).exists():
        return ["the resumed run was not sealed"]
    found = verify(out, level=1)
    problems = [f"{check.id}: {check.text}" for check in found.checks if check.verdict == "failed"]
    run = RunRecord.open(out)
    if run.metrics() != [dict(row) for row in json.loads(json.dumps(synthetic.steps()))]:
        problems.append("metrics differ from those of a run that was never killed")
    for folder in run.checkpoints.folders():
        problems += [f"{folder.name}: {error}" for error in _checkpoint_problems(run.checkpoints, folder)]
    if [folder.name for folder in run.checkpoints.folders()] != ["step_000004", "step_000006"]:
        problems.append(f"checkpoints {[folder.name for folder in run.checkpoints.folders()]}")
    return problems


def _checkpoint_problems(store: CheckpointStore, folder: Path) -> list[str]:
    from tests.record.crash_child import given_weights
    checkpoint = store.load(folder)
    right = bytes.fromhex(given_weights(checkpoint.step))
    return [] if (folder / "model.safetensors").read_bytes() == right else ["weights differ"]


def trial(out: Path, source: Path, *kills: int) -> list[str]:
    """Kill one child after another at these calls, then let one go on to the end; everything that was not right."""
    problems = []
    for kill_at in kills:
        child = run_child(out, kill_at, source)
        problems += [f"killed at call {kill_at}: {problem}" for problem in problems_after_kill(out, child)]
    last = run_child(out, 0, source)
    if last.returncode != 0:
        problems.append(f"resuming ended with {last.returncode}: {last.stderr[-500:]}")
    return problems + [f"after kills at {kills}: {problem}" for problem in problems_at_end(out)]
