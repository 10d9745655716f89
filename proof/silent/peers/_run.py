"""Runs the examples of a peer one after the other, in one process: ``PYTHON _run.py FOLDER NAME…``, a line for each."""

import io
import random
import runpy
import sys
from contextlib import redirect_stdout

if __name__ == "__main__":  # not in the processes that a trainer starts
    sys.path.insert(0, sys.argv[1])
    for name in sys.argv[2:]:
        random.seed(0)
        with redirect_stdout(io.StringIO()) as said:
            try:
                runpy.run_path(f"{sys.argv[1]}/{name}.py", run_name="example")
            except Exception as error:  # noqa: BLE001 - an example that fails is a cell that was not tried
                said.write(f"\nnot tried: {type(error).__name__}: {' '.join(str(error).split())[:200]}")
        sys.stdout.write(f"{name}\t{said.getvalue().strip().splitlines()[-1]}\n")
        sys.stdout.flush()
