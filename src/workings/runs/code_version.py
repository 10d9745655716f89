"""Version of the code: commit and digest of uncommitted changes, if the package is in a git checkout."""

import subprocess
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import workings
from workings.record.digest import bytes_digest


@dataclass(frozen=True, kw_only=True)
class CodeVersion:
    """The package's version and, in a checkout, its commit. Missing values are empty strings."""

    version: str
    commit: str
    dirty_diff_sha256: str
    absent_because: str


def code_version() -> CodeVersion:
    """Reads the checkout of the imported package; an installed wheel has none."""
    package = Path(workings.__file__).resolve().parent
    number = version("workings")
    # An environment may be within another project's checkout, whose commit says nothing about this package.
    if "site-packages" in package.parts or not (package.parents[1] / ".git").exists():
        return CodeVersion(version=number, commit="", dirty_diff_sha256="",
                           absent_because=f"installed as a package, version {number}")
    try:
        commit = _git(package, "rev-parse", "HEAD").decode().strip()
        # Against HEAD, so that staged changes count; files that git does not track are not seen.
        diff = _git(package, "diff", "HEAD", "--binary", "--no-ext-diff")
    # Git may be missing or refuse a folder of another owner: the record then says why it has no commit.
    except (OSError, subprocess.SubprocessError) as error:
        return CodeVersion(version=number, commit="", dirty_diff_sha256="", absent_because=f"git: {error}")
    return CodeVersion(version=number, commit=commit, dirty_diff_sha256=bytes_digest(diff) if diff else "",
                       absent_because="no uncommitted changes")


def _git(directory: Path, *words: str) -> bytes:
    return subprocess.run(["git", "-C", str(directory), *words], check=True, capture_output=True, timeout=30).stdout
