"""Makes this checkout usable where nothing can be installed: its packages found, its engines registered.

On a machine without a network the packages may be next to the interpreter's own. Engines are found among the entry
points of an installed distribution, which a checkout is not; a folder with its metadata does the same.
"""

import os
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def make_findable(folder: Path) -> None:
    """Put this checkout on the path of this process and its children; metadata in ``folder`` if it is not installed."""
    paths = [str(ROOT), str(ROOT / "src")]
    try:
        distribution("workings")
    except PackageNotFoundError:
        write_metadata(folder)
        paths.append(str(folder))
    sys.path[:0] = [path for path in paths if path not in sys.path]
    # The places where this interpreter was told to look stay in front.
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([*filter(None, given), *paths]))


def write_metadata(folder: Path) -> None:
    """What an installer would write of `pyproject.toml`: the name, the version and the entry points."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    place = folder / f"{project['name']}-{project['version']}.dist-info"
    place.mkdir(parents=True, exist_ok=True)
    put(place / "METADATA",
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
        + "".join(f"Requires-Dist: {each}\n" for each in project["dependencies"]))
    put(place / "entry_points.txt", "".join(
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in entries.items())
        for group, entries in project["entry-points"].items()))


def put(path: Path, text: str) -> None:
    """Write a file that is whole at every moment, also where several processes write and read it at one time."""
    new = path.with_name(f"{path.name}.{os.getpid()}")
    new.write_text(text, encoding="utf-8")
    new.replace(path)
