"""Killing a writer at chosen moments and judging what it leaves behind. Used by the tests and by `proof/`.

    python -m tests.record.crash OUT KILL_AT

writes a run, or continues with one, and may kill itself before any call to the system. KILL_AT counts the calls that
change the disk (open, write, fsync, rename, mkdir, unlink, …) from 1; 0: never. At a write, half of the bytes go out
first, which is what a torn line is. Everything acknowledged (a step's line written, a checkpoint saved, the run sealed)
is told on standard output with `os.write`: it must not be lost.
"""

import fcntl
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from tests import children
from tests.record import synthetic
from workings.errors import RequestError
from workings.evidence.verify import verify
from workings.record import jsonl
from workings.record.checkpoints import CheckpointStore
from workings.record.layout import METRICS, partial_path
from workings.record.reader import RunRecord
from workings.record.values import now
from workings.record.writer import RunWriter

ROOT = Path(__file__).resolve().parents[2]
COUNTED = frozenset({"open", "write", "fsync", "replace", "rename", "mkdir", "unlink", "rmdir", "ftruncate", "flock"})
COUNTED_MODULES = {"posix", "io", "_io", "fcntl"}


# --- the child ----------------------------------------------------------------------------------------------------

class Killer:
    """Counts calls; at the chosen one, this process dies."""

    def __init__(self, kill_at: int) -> None:
        self.kill_at = kill_at
        self.calls: list[str] = []
        self._write = os.write

    def hook(self, frame: FrameType, event: str, argument: Any) -> None:
        """For `sys.setprofile`: called before every C function."""
        if event != "c_call" or argument.__name__ not in COUNTED:
            return
        module = getattr(argument, "__module__", None) or type(argument.__self__).__module__
        if module not in COUNTED_MODULES or "/workings/record/" not in self._caller(frame):
            return
        self.calls.append(f"{frame.f_code.co_name}:{argument.__name__}")
        if len(self.calls) == self.kill_at:
            sys.setprofile(None)
            self._tear(frame, argument)
            os.kill(os.getpid(), signal.SIGKILL)

    def _caller(self, frame: FrameType | None) -> str:
        """The nearest file that is not the standard library's."""
        while frame is not None:
            name = frame.f_code.co_filename
            if "/lib/python" not in name or "site-packages" in name:
                return name
            frame = frame.f_back
        return ""

    def _tear(self, frame: FrameType, argument: Any) -> None:
        if argument.__name__ == "write" and frame.f_code.co_name == "append_bytes":
            data: bytes = frame.f_locals["data"]
            self._write(frame.f_locals["self"].descriptor, data[:len(data) // 2])


def tell(text: str) -> None:
    """Acknowledge something to the parent."""
    os.write(1, (text + "\n").encode())


def write_run(out: Path) -> None:
    """Begin or resume, take all steps, seal."""
    if out.exists():
        return
    try:
        writer = RunWriter.resume(out) if partial_path(out).exists() else RunWriter.create(out)
    except RequestError:
        if out.exists():  # its sealing had begun and is now finished
            tell("sealed")
            return
        raise
    checkpoint, skipped = writer.checkpoints.latest_valid()
    done = checkpoint.step if checkpoint is not None else 0
    kept = writer.truncate_metrics(done)
    if done:
        writer.event("resumed", from_step=done, skipped=skipped, **kept)
    else:
        writer.event("started")
    synthetic.write_inputs(writer)
    for step in range(done + 1, synthetic.STEPS + 1):
        writer.metric(synthetic.steps()[step - 1])
        tell(f"step {step}")
        writer.log(f"step {step}")
        if step % 2 == 0:
            synthetic.save(writer, step)
            tell(f"saved {step}")
    synthetic.finish(writer, finished_at=now())
    tell("sealed")


def main() -> None:
    """See the module's text. At the end, the names of all counted calls go to standard error."""
    fcntl.flock  # noqa: B018 - loaded before counting begins
    synthetic.steps()  # made before counting begins
    killer = Killer(int(sys.argv[2]))
    sys.setprofile(killer.hook)
    write_run(Path(sys.argv[1]))
    sys.setprofile(None)
    sys.stderr.write("\n".join(killer.calls))


# --- the parent ---------------------------------------------------------------------------------------------------

@dataclass
class Child:
    """How one child ended."""

    returncode: int
    told: list[str]
    """What it acknowledged."""
    stderr: str

    def last(self, word: str) -> int:
        """The last step that was acknowledged with this word; 0 without one."""
        return max((int(line.split()[1]) for line in self.told if line.startswith(word + " ")), default=0)


def run_child(out: Path, kill_at: int) -> Child:
    """Let a child write, killed at its ``kill_at``-th call (0: never)."""
    child = children.start(["-m", "tests.record.crash", str(out), str(kill_at)], cwd=ROOT, environment=os.environ)
    told, error = child.communicate()
    return Child(child.wait(), told.splitlines(), error)


def problems_after_kill(out: Path, child: Child) -> list[str]:
    """What must hold at once after a kill: nothing acknowledged is lost, and nothing half-done looks complete."""
    if child.returncode not in (0, -signal.SIGKILL):
        return [f"ended with {child.returncode} instead of the kill: {child.stderr[-500:]}"]
    if out.exists():
        found = verify(out, level=1)
        return [f"a final folder that does not verify: {check.id}: {check.text}" for check in found.checks
                if check.verdict == "failed"]
    problems = ["sealed was acknowledged, and there is no final folder"] if "sealed" in child.told else []
    partial, steps = partial_path(out), child.last("step")
    if not partial.exists():
        return [*problems, *(["acknowledged steps, and no folder"] if steps else [])]
    rows, _ = jsonl.read(partial / METRICS)
    if [row["step"] for row in rows][:steps] != list(range(1, steps + 1)):
        problems.append(f"{steps} steps acknowledged, {len(rows)} lines there")
    checkpoint, _ = CheckpointStore(partial / "checkpoints").latest_valid()
    if (checkpoint.step if checkpoint else 0) < child.last("saved"):
        problems.append(f"checkpoint {child.last('saved')} acknowledged, the newest good one is {checkpoint}")
    return problems


def problems_at_end(out: Path) -> list[str]:
    """What must hold once the run was resumed to its end: as if it had never been killed."""
    if not out.exists() or partial_path(out).exists():
        return ["the resumed run was not sealed"]
    found = verify(out, level=1)
    problems = [f"{check.id}: {check.text}" for check in found.checks if check.verdict == "failed"]
    run = RunRecord.open(out)
    if run.metrics() != list(synthetic.steps()):
        problems.append("metrics differ from those of a run that was never killed")
    saved = {folder.name: run.checkpoints.load(folder).step for folder in run.checkpoints.folders()}
    if saved != {"step_000004": 4, "step_000006": 6}:
        problems.append(f"checkpoints {saved}")
    problems += [f"{name}: weights differ" for name, step in saved.items()
                 if (out / "checkpoints" / name / "model.safetensors").read_bytes()
                 != synthetic.safetensors_bytes([float(step)] * 64)]
    return problems


def trial(out: Path, *kills: int) -> list[str]:
    """Kill one child after another at these calls, then let one go on to the end; everything that was not right."""
    problems = []
    for kill_at in kills:
        child = run_child(out, kill_at)
        problems += [f"killed at call {kill_at}: {problem}" for problem in problems_after_kill(out, child)]
    last = run_child(out, 0)
    if last.returncode != 0:
        problems.append(f"resuming ended with {last.returncode}: {last.stderr[-500:]}")
    return problems + [f"after kills at {kills}: {problem}" for problem in problems_at_end(out)]


if __name__ == "__main__":
    main()
