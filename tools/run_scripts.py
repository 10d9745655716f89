"""Runs every script of a folder, one after another: ``python -m tools.run_scripts benchmarks [NAME…]``.

A script is a file ``FOLDER/NAME.py`` (or ``FOLDER/NAME/__main__.py``) without a leading underscore. It can be run
alone as ``python -m FOLDER.NAME``, writes its results with `tools.result_file.write_result`, and exits with 0 (done),
1 (what it should show does not hold) or 3 (not measured, for a stated reason such as a busy machine). The first line of
its docstring says what it shows. All scripts run even when one fails; the exit code is 1 if one failed, else 3 if one
was not measured, else 0.
"""

import ast
import subprocess
import sys
import time
from pathlib import Path

from tools.generated import ROOT

NOT_MEASURED = 3


def scripts(folder: Path) -> dict[str, str]:
    """Name and purpose (first docstring line) of every script in ``folder``, in order of name."""
    found = {}
    files = {path.stem: path for path in folder.glob("*.py")} | {
        path.parent.name: path for path in folder.glob("*/__main__.py")}
    for name, path in sorted(files.items()):
        if not name.startswith("_"):
            docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
            if docstring is None:
                raise SystemExit(f"{path}: the first line of its docstring must say what it shows")
            found[name] = docstring.splitlines()[0]
    return found


def exit_code(codes: dict[str, int]) -> int:
    """One verdict for all scripts: failed before not measured before done."""
    if any(code not in (0, NOT_MEASURED) for code in codes.values()):
        return 1
    return NOT_MEASURED if NOT_MEASURED in codes.values() else 0


def main(arguments: list[str]) -> int:
    """Run the scripts named, or all of the folder; print one line each."""
    folder, *names = arguments
    known = scripts(ROOT / folder)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SystemExit(f"no such script: {', '.join(unknown)}; there are: {', '.join(known)}")
    codes = {}
    for name in names or known:
        print(f"== {folder}/{name}: {known[name]}", flush=True)
        started = time.monotonic()
        codes[name] = subprocess.run([sys.executable, "-m", f"{folder}.{name}"], cwd=ROOT, check=False).returncode
        print(f"== {folder}/{name}: exit code {codes[name]} after {time.monotonic() - started:.0f} s", flush=True)
    return exit_code(codes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
