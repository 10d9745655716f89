"""Kinds of silent wrongness that people reported of trainers, each tried on `workings` and on other trainers.

A case is one file of this folder. The first paragraph of its docstring says what goes wrong, the line `Reported:` names
issues, pull requests or a paper. Its function `check` runs the smallest example that shows the mistake: `check(engine)`
once with each engine, `check()` once where everything happens before an engine is asked. It finds `right`, `refused`
(an error that names the cause) or `wrong`.

A peer's example is `peers/NAME/CASE.py`, at most 30 lines that run in the peer's own environment and print one line:
`right`, `refused` or `wrong`, and the evidence.
"""

import argparse
import ast
import inspect
import os
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parent.parent
RESULT = FOLDER.parent / "silent.json"
PEERS = {"trl": ("trl", "peft", "transformers", "torch")}
"""Packages of each peer whose versions belong to its cells."""
VERDICTS = ("right", "refused", "wrong")


def cases() -> dict[str, tuple[str, list[str]]]:
    """What goes wrong, and who reported it, by the name of the case."""
    found = {}
    for path in sorted(FOLDER.glob("[a-z]*.py")):
        text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        wrong, _, reported = text.partition("\n\nReported: ")
        if not reported:
            raise SystemExit(f"{path.name}: its docstring has no paragraph `Reported: `")
        found[path.stem] = (" ".join(wrong.split()), " ".join(reported.split()).removesuffix("."))
    return found


def ours(name: str) -> dict[str, dict[str, Any]]:
    """What a case finds, by engine; both have the same where no engine is asked."""
    from proof.silent._harness import ENGINES

    check = import_module(f"proof.silent.{name}").check
    by_engine = bool(inspect.signature(check).parameters)
    found = {engine: check(engine) for engine in ENGINES} if by_engine else dict.fromkeys(ENGINES, check())
    return {engine: {"verdict": one.verdict, "evidence": one.evidence} for engine, one in found.items()}


def theirs(python: Path, peer: str, name: str) -> dict[str, str]:
    """What a peer's example of a case prints; `not tried` where there is none."""
    script = FOLDER / "peers" / peer / f"{name}.py"
    if not script.is_file():
        return {"verdict": "not tried"}
    done = subprocess.run([python, "-P", script], capture_output=True, text=True, check=False, timeout=600,
                          env=os.environ | {"HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": "",
                                            "PYTHONWARNINGS": "ignore"})
    verdict, _, evidence = (done.stdout.strip().splitlines() or [""])[-1].partition(": ")
    if verdict not in VERDICTS:
        return {"verdict": "not tried", "evidence": f"the example failed: {done.stderr.strip().splitlines()[-1:]}"}
    return {"verdict": verdict, "evidence": evidence}


def versions_of(python: Path, packages: tuple[str, ...]) -> dict[str, str]:
    """Installed versions in a peer's environment; none where one is missing."""
    code = "import sys, importlib.metadata as m; print(*(m.version(name) for name in sys.argv[1:]))"
    done = subprocess.run([python, "-c", code, *packages], capture_output=True, text=True, check=False)
    return dict(zip(packages, done.stdout.split(), strict=True)) if done.returncode == 0 else {}


def main(arguments: list[str] | None = None) -> int:
    """Try all cases, or those asked for; 1 if one of ours is wrong."""
    parser = argparse.ArgumentParser(prog="python -m proof.silent", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--peers", type=Path, help="Python of an environment that has the other trainers")
    parser.add_argument("--only", action="append", default=[], metavar="NAME",
                        help="only this case; nothing is written")
    asked = parser.parse_args(arguments)
    known = cases()
    if unknown := {*asked.only} - {*known}:
        parser.error(f"no such case: {', '.join(sorted(unknown))}; there are: {', '.join(known)}")
    # The environment of tests: no network, caches of its own, programs that compile in a third of the time.
    import_module("tests.conftest")
    import_module("tests.engines.conftest")
    peers = {name: found for name, packages in PEERS.items() if asked.peers
             and (found := versions_of(asked.peers, packages))}
    rows: dict[str, Any] = {}
    for name in asked.only or known:
        started = time.process_time()
        rows[name] = {"wrong": known[name][0], "reported": known[name][1], "workings": ours(name)} | {
            peer: theirs(asked.peers, peer, name) for peer in peers}
        cells = {**{f"workings, {engine}": cell for engine, cell in rows[name]["workings"].items()},
                 **{peer: rows[name][peer] for peer in peers}}
        print(f"{name} ({time.process_time() - started:.1f} s)")
        for column, cell in cells.items():
            print(f"    {column}: {cell['verdict']}: {cell.get('evidence', '')}", flush=True)
    wrong = [name for name, row in rows.items() if any(
        cell["verdict"] == "wrong" for cell in row["workings"].values())]
    print(f"{len(rows)} kinds, {len(wrong)} wrong here" + (f": {', '.join(wrong)}" if wrong else ""))
    if not asked.only:
        _write(rows, peers, str(asked.peers))
    return int(bool(wrong))


def _write(rows: dict[str, Any], peers: dict[str, dict[str, str]], python: str) -> None:
    from tools.result_file import earlier, write_result

    before = earlier(RESULT) if not peers else {}
    # Without an environment for them the cells of peers stay as they were found, with their versions and day.
    for name, row in rows.items():
        row |= {peer: before["cases"][name][peer] for peer in before.get("peers", {})
                if peer in before["cases"].get(name, {})}
    counts = {f"{column}": {verdict: sum(cell(row)["verdict"] == verdict for row in rows.values())
                            for verdict in (*VERDICTS, "not tried")}
              for column, cell in _columns(peers or before.get("peers", {})).items()}
    write_result(RESULT, what="Published kinds of silent wrongness, each tried with its smallest example.",
                 command="python -m proof.silent" + (" --peers PYTHON" if peers else ""),
                 packages=["torch", "jax", "numpy"],
                 values={"kinds": len(rows), "counts": counts, "peers": peers or before.get("peers", {}),
                         "cases": rows})


def _columns(peers: dict[str, Any]) -> dict[str, Any]:
    ours = {engine: (lambda row, engine=engine: row["workings"][engine]) for engine in ("torch", "jax")}
    return ours | {peer: (lambda row, peer=peer: row.get(peer, {"verdict": "not tried"})) for peer in peers}


if __name__ == "__main__":
    sys.exit(main())
