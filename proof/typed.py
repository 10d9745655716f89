"""README, docs home and getting started, typed from top to bottom in one fresh clone: every command succeeds.

    python -m proof.typed

Clones the repository as it is committed, makes `.venv` there over the packages of the Python that runs this (nothing is
downloaded), and types every command of the three pages in their order, in one folder: also those that the tests leave
out because they install, or need what the commands above left. Left out are those that need a network, a chip or an
account. `workings ui`, which stays, is stopped after some seconds. Writes `proof/typed.json`; exits with 1 where a
command fails.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tools.fences import RUNNABLE, Fence, fences
from tools.result_file import write_result

ROOT = Path(__file__).resolve().parent.parent
RESULT = Path(__file__).parent / "typed.json"
PAGES = ("README.md", "docs/index.md", "docs/getting-started.md")
TYPED = ("installs into an environment of its own", "needs the runs that the command above leaves")
"""Reasons for which a test leaves a fence out and this does not."""
PAGE_SECONDS = 15
"""After which the local page is stopped, if nothing was wrong with it."""


def environment_of(clone: Path) -> dict[str, str]:
    """An environment in the clone, over the packages that are here, as `make quickstart` would have installed it."""
    python = clone / ".venv" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", clone / ".venv"], check=True)
    own = subprocess.run([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], check=True,
                         capture_output=True, text=True).stdout.strip()
    # The packages may lie in several places; the clone's own source comes before them.
    places = [str(clone / "src"), *(place for place in sys.path if place.endswith("site-packages"))]
    Path(own, "workings-clone.pth").write_text("\n".join(places) + "\n")
    # What pip would write, with the clone's Python in its first line.
    program = python.with_name("workings")
    program.write_text(f"#!{python}\nfrom workings.__main__ import run\nrun()\n")
    program.chmod(0o755)
    (clone / ".venv" / ".installed-core").touch()  # what `make` looks at
    kept = {key: value for key, value in os.environ.items() if key not in ("VIRTUAL_ENV", "PYTHONPATH")}
    return kept | {"HOME": str(clone / "home"), "WORKINGS_CACHE": str(clone / "cache")}


def typed(fence: Fence) -> str:
    """A fence as it is typed: the shell finds `workings`, and what stays is stopped."""
    # Two pages begin with it, and nobody makes it twice.
    code = fence.code.replace("make quickstart", "test -d runs/quickstart || make quickstart")
    lines = [f"timeout {PAGE_SECONDS} {line.partition('#')[0]} || test $? -eq 124"
             if line.startswith("workings ui") else line
             for line in code.splitlines()]
    return "\n".join(["if [ -f .venv/bin/activate ]; then source .venv/bin/activate; fi", *lines])


def main() -> int:
    """Clone, type, write."""
    commands, failures, left_out = 0, [], []
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder, "workings")
        subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
        environment = environment_of(clone)
        began = time.monotonic()
        for page in PAGES:
            for fence in fences((clone / page).read_text(encoding="utf-8")):
                if fence.language not in RUNNABLE:
                    continue
                place = f"{page}:{fence.line}"
                if fence.not_run and fence.not_run not in TYPED:
                    left_out.append(f"{place}: {fence.not_run}")
                    continue
                words = ([shutil.which("bash"), "-eo", "pipefail", "-c", typed(fence)] if fence.language == "bash"
                         else [clone / ".venv" / "bin" / "python", "-c", fence.code])
                done = subprocess.run(words, cwd=clone, env=environment, stdin=subprocess.DEVNULL, text=True,
                                      capture_output=True, check=False)
                commands += sum(bool(line.strip()) and not line.startswith((" ", "#")) for line in
                                fence.code.splitlines())
                print(place, "ok" if done.returncode == 0 else f"exit code {done.returncode}", flush=True)
                if done.returncode:
                    failures.append(f"{place}: {(done.stdout + done.stderr).strip().splitlines()[-1:]}")
                    print(done.stdout, done.stderr)
        seconds = time.monotonic() - began
    write_result(RESULT, what="The first pages' commands, typed one after the other in a fresh clone.",
                 command="python -m proof.typed",
                 values={"pages": list(PAGES), "lines": commands, "failures": failures, "left_out": left_out,
                         "seconds": round(seconds, 1)})
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
