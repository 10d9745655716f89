"""The steps of the Dockerfile, run in an empty environment of Python: what they install trains a model.

Not a container: the base image, NVIDIA's driver and /dev/shm are not tried. Each `COPY` and `RUN` is done as written,
in order, in a new folder, with a new virtual environment in the place of the image's Python.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.result_file import ROOT, write_result

KEPT = ("pip_", "http", "no_proxy", "ssl")
"""Beginnings of environment variables."""
RECIPE = ("train", "smoke-tiny", "device=cpu", "--out", "run")


def steps(text: str) -> list[tuple[str, str]]:
    """Instruction and argument of each step of a Dockerfile."""
    return [(word, rest) for line in text.splitlines() if line and not line.startswith("#")
            for word, _, rest in [line.partition(" ")]]


def main() -> int:
    """Run the steps, train, write the result file; 1 where a step fails, 3 without this image's Python or a wheel."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--extra", default="jax", help="the build argument EXTRA")
    asked = parser.parse_args()
    done = list[str]()
    with tempfile.TemporaryDirectory() as name:
        folder, environment = Path(name, "work"), Path(name, "python")
        folder.mkdir()
        # How pip reaches its index is this machine's affair, as it is that of the machine that builds the image.
        variables = {key: value for key, value in os.environ.items() if key.lower().startswith(KEPT)} | {
            "PATH": f"{environment}/bin:/usr/bin:/bin", "HOME": name, "EXTRA": asked.extra}
        for word, rest in steps((ROOT / "Dockerfile").read_text()):
            if word == "FROM":
                version = re.findall(r"python:([\d.]+)", rest)[0]
                if (python := shutil.which(f"python{version}")) is None or not [*(ROOT / "dist").glob("*.whl")]:
                    print(f"not measured: needs python{version} and `make dist`", file=sys.stderr)
                    return 3
                subprocess.run([python, "-m", "venv", environment], check=True)
            elif word == "COPY":
                *sources, _ = rest.split()
                for file in (file for source in sources for file in ROOT.glob(source)):
                    shutil.copy(file, folder)
            elif word == "RUN":
                subprocess.run(["/bin/sh", "-c", rest], cwd=folder, env=variables, check=True)
            done.append(f"{word} {rest}")
        engine = "torch" if asked.extra == "torch" else "jax"
        subprocess.run(["workings", *RECIPE, f"engine={engine}"], executable=environment / "bin/workings", cwd=folder,
                       env=variables, check=True)
        installed = subprocess.run([environment / "bin/python", "-m", "pip", "list", "--format=freeze"], check=True,
                                   capture_output=True, text=True).stdout.split()
    write_result(words=f"--extra {asked.extra}",
                 values={"steps": done, "trained": " ".join((*RECIPE, f"engine={engine}")), "installed": installed})
    return 0


if __name__ == "__main__":
    sys.exit(main())
