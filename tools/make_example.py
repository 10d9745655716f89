"""Make `examples/runs/quickstart` from a quickstart that has just been run.

    workings quickstart --tiny --out runs/quickstart
    python -m tools.make_example runs/quickstart

Zips the sealed runs (sorted names, one fixed time, so that equal runs give equal bytes), copies the report, and writes
a README with what was found and the digest to verify against.
"""

import json
import shutil
import sys
import zipfile
from pathlib import Path

from tools.generated import ROOT
from workings.evidence.verify import verify

TARGET = ROOT / "examples" / "runs" / "quickstart"
EPOCH = (2000, 1, 1, 0, 0, 0)


def zip_folder(folder: Path, target: Path) -> None:
    """All files below a folder, under the folder's name."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                name = f"{folder.name}/{path.relative_to(folder).as_posix()}"
                archive.writestr(zipfile.ZipInfo(name, EPOCH), path.read_bytes(), zipfile.ZIP_DEFLATED)


def main(quickstart: Path) -> None:
    """Write the example, and refuse runs that do not verify."""
    TARGET.mkdir(parents=True, exist_ok=True)
    archive = TARGET / "runs.zip"
    zip_folder(quickstart / "runs", archive)
    found = verify(archive)
    if found.failed or found.level < found.asked_level:
        raise SystemExit(f"{quickstart} does not verify to level {found.asked_level}")
    shutil.copyfile(quickstart / "report.html", TARGET / "report.html")
    comparison = json.loads((quickstart / "compare.json").read_text(encoding="utf-8"))
    (TARGET / "README.md").write_text(f"""# A real quickstart

`runs.zip` has both runs of `workings quickstart` on a CPU, sealed, with their checkpoints, predictions and scorecards.
`report.html` is the report of that quickstart (download it and open it from disk).

> {comparison["sentence"]}

Verify it offline, without any ML library:

```bash
workings verify examples/runs/quickstart/runs.zip --expect-root {found.root}
```
""", encoding="utf-8")
    print(f"{archive}: {archive.stat().st_size:,} bytes, level {found.level}, root {found.root}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
