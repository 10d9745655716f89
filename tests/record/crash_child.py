"""A child process that writes a run, or continues with one, and may kill itself before any call to the system.

    python -m tests.record.crash_child OUT KILL_AT INPUT

KILL_AT counts the calls that change the disk (open, write, fsync, rename, mkdir, unlink, …) from 1; 0: never. At a
write, half of the bytes go out first, which is what a torn line is. Everything acknowledged (a step's line written, a
checkpoint saved, the run sealed) is told on standard output with `os.write`, so that the parent knows what must not be
lost. With INPUT come the contents, made once by the parent, so that this process starts quickly.
"""

import fcntl
import json
import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from workings.errors import RequestError
from workings.record.layout import partial_path
from workings.record.manifest import RunManifest
from workings.record.values import now
from workings.record.writer import RunWriter

COUNTED = frozenset({"open", "write", "fsync", "replace", "rename", "mkdir", "unlink", "rmdir", "ftruncate", "flock"})
_COUNTED_MODULES = {"posix", "io", "_io", "fcntl"}


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
        if module not in _COUNTED_MODULES or "/workings/record/" not in self._caller(frame):
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


def write_run(out: Path, given: dict[str, Any]) -> None:
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
    if done:
        writer.event("resumed", from_step=done, skipped=skipped, **writer.truncate_metrics(done))
    else:
        writer.truncate_metrics(0)
        writer.event("started")
    for name, text in given["texts"].items():
        writer.write_text(name, text)
    for step in range(done + 1, len(given["steps"]) + 1):
        writer.metric(given["steps"][step - 1])
        tell(f"step {step}")
        writer.log(f"step {step}")
        if step % given["save_every"] == 0:
            writer.checkpoints.save(step, lambda folder, step=step: _weights(folder, step), {"position": step})
            tell(f"saved {step}")
    writer.write_text("README.md", "# A run\n\nStatus: **complete**.\n")
    writer.seal("complete", RunManifest.model_validate({**given["manifest"], "finished_at": now()}))
    tell("sealed")


def _weights(folder: Path, step: int) -> None:
    (folder / "model.safetensors").write_bytes(bytes.fromhex(given_weights(step)))


def given_weights(step: int) -> str:
    """A safetensors file of one number, in hexadecimal."""
    header = b'{"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}'
    return (len(header).to_bytes(8, "little") + header + bytes([step])).hex()


def main() -> None:
    """See the module's text. Without KILL_AT, the names of all counted calls go to standard error at the end."""
    out, kill_at, source = Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    given = json.loads(source.read_bytes())
    fcntl.flock  # noqa: B018 - loaded before counting begins
    killer = Killer(kill_at)
    sys.setprofile(killer.hook)
    write_run(out, given)
    sys.setprofile(None)
    sys.stderr.write("\n".join(killer.calls))


if __name__ == "__main__":
    main()
