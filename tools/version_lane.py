"""Quick tests on other versions than the pins: ``python -m tools.version_lane oldest|newest [PYTEST ARGUMENT ...]``.

`oldest` installs the lower bound of every range in `pyproject.toml` that a person may install, `newest` the latest
releases, each into its own environment below `build/`. What is installed is printed and left in
`build/LANE.txt`. Exits with pytest's status. Needs a package index and about 8 GB: PyTorch comes with CUDA's libraries.
"""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tools.generated import ROOT

QUICK = "not full and not children and not slow and not installs"
NOT_OF_VERSIONS = "tests/project/test_docs.py::test_generated_page_is_current"
"""Pages show the pinned typer's words and columns."""


@dataclass(frozen=True)
class Lane:
    """How versions are chosen, and of what."""

    resolution: str
    """uv's word: `lowest-direct` takes the lower bound of what we name, and the newest of what that needs."""
    extras: str
    held: tuple[str, ...] = ()
    """Versions that are not free."""
    tests: str = ""
    """pytest's expression for the tests that these versions can pass."""


EXTRAS = "jax,torch,hub,gguf,score,sign,track,ui"
LANES = {
    "oldest": Lane("lowest-direct", f"{EXTRAS},tunix"),
    # Without Tunix, whose newest release keeps transformers behind: docs/decisions/0025-pins.md.
    # Nor Qwen 3.5, which is refused there: transformers computes it by functions of other names since 5.15.
    "newest": Lane("highest", EXTRAS, ("torch==2.13.0",), "not qwen3_5")}


def install(name: str) -> Path:
    """The Python of a new environment with this lane's versions and the tools that tests need."""
    lane, place = LANES[name], ROOT / "build" / name
    subprocess.run([sys.executable, "-m", "venv", "--clear", place], check=True)
    python = place / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", "uv"], check=True)
    subprocess.run([place / "bin" / "uv", "pip", "install", "--quiet", "--python", python, "--resolution",
                    lane.resolution, *lane.held, "--editable", f"{ROOT}[{lane.extras}]"], check=True)
    # pip leaves alone what is there already, as far as it does for the tests.
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--editable", f"{ROOT}[test]"], check=True)
    found = subprocess.run([python, "-m", "pip", "freeze", "--exclude-editable"], check=True, capture_output=True,
                           text=True).stdout
    (ROOT / "build" / f"{name}.txt").write_text(found, encoding="utf-8")
    print(found, flush=True)
    return python


def main(arguments: list[str]) -> int:
    """Install, test."""
    if not arguments or arguments[0] not in LANES:
        raise SystemExit(f"which lane? {' or '.join(LANES)}")
    name, *others = arguments
    python = install(name)
    return subprocess.run([python, "-m", "pytest", "-q", "-m", QUICK, "-k", LANES[name].tests,
                           "--deselect", NOT_OF_VERSIONS, *others],
                          cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
