"""A whole `workings train` in a child process that kills itself right before it changes the disk.

    python -m tests.runs.killed_child OUT KILL_AT WORDS…

runs ``workings train WORDS… --out OUT``. KILL_AT is the number of a call that changes a file of that run (write, fsync,
rename, mkdir, unlink, …) or draws completions, counted from 1; or a text: then it is the first call that this text is
part of, as in ``write checkpoints/.step_000014.tmp/optimizer.safetensors``; 0: never, and all calls are written to
``OUT.calls``.
At a write half of the bytes go out first: that is what a torn line or a torn tensor is.
"""

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any


class Killer:
    """Counts the calls that change files of one run; at the chosen one this process dies."""

    def __init__(self, out: Path, kill_at: str) -> None:
        self.partial = f"{out.name}.partial"
        self.kill_at = kill_at
        self.calls: list[str] = []
        self._write = os.write

    def relative(self, path: str) -> str:
        """The part of a path below the run's folder; empty for another path."""
        _, found, rest = path.partition(self.partial)
        return rest.lstrip("/") or "." if found else ""

    def count(self, name: str, path: str, data: Any = b"", descriptor: int = -1) -> None:
        """Note one call; die at the chosen one."""
        if not (relative := self.relative(path)):
            return
        self.calls.append(f"{name} {relative}")
        chosen = len(self.calls) == int(self.kill_at) if self.kill_at.isdigit() else self.kill_at in self.calls[-1]
        if chosen:
            if descriptor >= 0:
                self._write(descriptor, memoryview(data)[:len(data) // 2])
            os.kill(os.getpid(), signal.SIGKILL)

    def install(self) -> None:
        """Put the counting in front of the calls of `os` and of `Path.open`."""
        for name in ("rename", "replace", "mkdir", "unlink", "rmdir"):
            setattr(os, name, self._named(name, getattr(os, name)))
        for name in ("fsync", "ftruncate", "write"):
            setattr(os, name, self._on_descriptor(name, getattr(os, name)))
        plain = Path.open

        def opened(path: Path, mode: str = "r", *rest: Any, **named: Any) -> Any:
            file = plain(path, mode, *rest, **named)
            return CountedFile(file, str(path), self) if mode == "wb" and self.relative(str(path)) else file

        Path.open = opened  # type: ignore[method-assign,assignment]

    def install_drawing(self) -> None:
        """Count what draws: before the completions of some prompts, and after them, before they are rewarded."""
        from workings.ways.parts.rollout_experience import RolloutSampler

        sampled_rollout, drawn = RolloutSampler.sampled, RolloutSampler.sample_groups

        def counted(sampler: Any, state: Any, position: Any, step: int) -> Any:
            self.count(f"draw {step}", f"{self.partial}/begun")
            found = sampled_rollout(sampler, state, position, step)
            self.count(f"draw {step}", f"{self.partial}/ended")
            return found

        def counted_groups(sampler: Any, state: Any, turns: Any, step: int) -> Any:
            sample = sampler.engine.sample

            def sampled(*words: Any, **named: Any) -> Any:
                found = sample(*words, **named)
                self.count(f"draw {step}", f"{self.partial}/unrewarded")
                return found

            sampler.engine.sample = sampled
            try:
                return drawn(sampler, state, turns, step)
            finally:
                sampler.engine.sample = sample

        RolloutSampler.sampled, RolloutSampler.sample_groups = counted, counted_groups  # type: ignore[method-assign]

    def _named(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def counted(path: Any, *rest: Any, **named: Any) -> Any:
            folder = named.get("dir_fd")
            whole = os.fspath(path) if folder is None else f"{_opened(folder)}/{path}"
            self.count(name, whole)
            return function(path, *rest, **named)

        return counted

    def _on_descriptor(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def counted(descriptor: int, *rest: Any) -> Any:
            with contextlib.suppress(OSError):
                self.count(name, _opened(descriptor), *((rest[0], descriptor) if name == "write" else ()))
            return function(descriptor, *rest)

        return counted


def _opened(descriptor: int) -> str:
    """Path of an open file or folder."""
    return str(Path(f"/proc/self/fd/{descriptor}").readlink())


class CountedFile:
    """An open file whose writes are counted."""

    def __init__(self, file: Any, path: str, killer: Killer) -> None:
        self._file, self._path, self._killer = file, path, killer

    def write(self, data: Any) -> Any:
        """Count, then write; what was written before is on its way to the disk."""
        self._file.flush()
        self._killer.count("write", self._path, data, self._file.fileno())
        return self._file.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> "CountedFile":
        return self

    def __exit__(self, *what: object) -> None:
        self._file.close()


def run(out: Path, kill_at: str, words: Sequence[str]) -> Any:
    """See the module's text; the exit code, for a process that was not killed."""
    from workings.cli.main import main as workings

    killer = Killer(out, kill_at)
    killer.install()
    killer.install_drawing()
    sys.argv = ["workings", "train", *words, "--out", str(out)]
    code: Any = 0
    try:
        workings()
    except SystemExit as stop:
        code = stop.code
    if killer.kill_at == "0":
        out.with_name(f"{out.name}.calls").write_text("\n".join(killer.calls) + "\n")
    return code


if __name__ == "__main__":
    sys.exit(run(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
