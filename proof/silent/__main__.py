"""Kinds of silent wrongness that people reported of trainers, each tried on `workings` and on other trainers.

A case is one file of this folder. The first paragraph of its docstring says what goes wrong, the line `Reported:` names
issues, pull requests or a paper. Its function `check` runs the smallest example that shows the mistake: `check(engine)`
once with each engine, `check()` once where everything happens before an engine is asked. It finds `right`, `refused`
(an error that names the cause) or `wrong`.

A peer's example is `peers/NAME/CASE.py`, at most 30 lines that run in the peer's own environment and print one line:
`right`, `refused`, `warned` (the mistake is made, and a warning names it) or `wrong`, and the evidence.
"""

import argparse
import ast
import inspect
import json
import os
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parent.parent
RESULT = FOLDER.parent / "silent.json"
PEERS = {"trl": ("trl", "peft", "transformers", "torch"),
         "peft": ("peft", "transformers", "accelerate", "torch"),
         "llamafactory": ("llamafactory", "trl", "peft", "transformers", "torch"),
         "axolotl": ("axolotl", "trl", "peft", "transformers", "torch"),
         "unsloth": ("unsloth", "unsloth_zoo", "trl", "transformers", "torch"),
         "tunix": ("google-tunix", "jax", "flax", "optax"),
         "soup": ("soup-cli", "trl", "peft", "transformers", "torch")}
"""Packages of each peer whose versions belong to its cells; the first is the peer's own."""
VERDICTS = ("right", "refused", "warned", "wrong")


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


def theirs(python: Path, peer: str, names: list[str]) -> dict[str, dict[str, str]]:
    """What a peer's examples of these cases print, by case; `not tried` where one failed."""
    folder = FOLDER / "peers" / peer
    tried = [name for name in names if (folder / f"{name}.py").is_file()]
    found = {}
    with tempfile.TemporaryDirectory() as place, subprocess.Popen(  # some write files where they are started
            [python.absolute(), "-W", "ignore", folder.parent / "_run.py", folder, *tried], text=True, cwd=place,
            stdout=subprocess.PIPE, env=os.environ | {"HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}) as running:
        for line in running.stdout or ():
            name, _, said = line.rstrip("\n").partition("\t")
            verdict, _, evidence = said.partition(": ")
            if name in tried:
                found[name] = {"verdict": verdict if verdict in VERDICTS else "not tried", "evidence": evidence}
                _say({peer: {name: found[name]}})
    return found


def versions_of(python: Path, packages: tuple[str, ...]) -> dict[str, str]:
    """Installed versions in a peer's environment; none where one is missing."""
    code = "import sys, importlib.metadata as m; print(*(m.version(name) for name in sys.argv[1:]))"
    done = subprocess.run([python, "-c", code, *packages], capture_output=True, text=True, check=False)
    return dict(zip(packages, done.stdout.split(), strict=True)) if done.returncode == 0 else {}


def main(arguments: list[str] | None = None) -> int:
    """Try all cases, or those asked for; 1 if one of ours is wrong."""
    parser = argparse.ArgumentParser(prog="python -m proof.silent", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--peers", action="append", default=[], metavar="NAME=PYTHON",
                        help=f"a trainer ({', '.join(PEERS)}) and the Python of an environment that has it: it is "
                        "tried in place of ours")
    parser.add_argument("--only", action="append", default=[], metavar="NAME",
                        help="only this case; of ours nothing is written, of a trainer its other cells stay")
    asked = parser.parse_args(arguments)
    known = cases()
    if unknown := {*asked.only} - {*known}:
        parser.error(f"no such case: {', '.join(sorted(unknown))}; there are: {', '.join(known)}")
    names = asked.only or [*known]
    if asked.peers:
        return _try_peers(parser, dict(one.partition("=")[::2] for one in asked.peers), known, asked.only)
    # The environment of tests: no network, separate caches, programs that compile in a third of the time.
    import_module("tests.conftest")
    import_module("tests.engines.conftest")
    found: dict[str, dict[str, dict[str, str]]] = {engine: {} for engine in ("torch", "jax")}
    for name in names:
        started, one = time.process_time(), ours(name)
        print(f"{name} ({time.process_time() - started:.1f} s)", flush=True)
        for engine, cell in one.items():
            found[engine][name] = cell
        _say({engine: {name: cell} for engine, cell in one.items()})
    wrong = {name for cells in found.values() for name, cell in cells.items() if cell["verdict"] == "wrong"}
    print(f"{len(names)} kinds, {len(wrong)} wrong here" + (f": {', '.join(sorted(wrong))}" if wrong else ""))
    if not asked.only:
        _write(known, {"ours": found})
    return int(bool(wrong))


def _try_peers(parser: argparse.ArgumentParser, pythons: dict[str, str], known: dict[str, tuple[str, str]],
               only: list[str]) -> int:
    """Try these peers, each with its Python; peers that are not asked for keep their cells."""
    from tools.result_file import earlier, measured

    if unknown := {*pythons} - {*PEERS}:
        parser.error(f"no such trainer: {', '.join(sorted(unknown))}; there are: {', '.join(PEERS)}")
    values = earlier(RESULT)
    peers, cells = values.get("peers", {}), values.get("cells_of_peers", {})
    for peer, python in pythons.items():
        if not (found := versions_of(Path(python), PEERS[peer])):
            parser.error(f"{python} lacks one of {', '.join(PEERS[peer])}")
        if only and peers.get(peer, {}).get("versions", found) != found:
            parser.error(f"{peer} was tried with {peers[peer]['versions']} and {python} has {found}: leave out --only")
        tried = theirs(Path(python), peer, only or [*known])
        cells[peer] = dict(sorted(((cells.get(peer, {}) if only else {}) | tried).items()))
        peers[peer] = {"versions": found} | measured()
        _write(known, {"peers": {one: peers[one] for one in PEERS if one in peers}, "cells_of_peers": cells})
    return 0


def _say(columns: dict[str, dict[str, dict[str, str]]]) -> None:
    for column, cells in columns.items():
        for name, cell in cells.items():
            print(f"    {column}: {name}: {cell['verdict']}: {cell['evidence']}", flush=True)


def _write(known: dict[str, tuple[str, str]], new: dict[str, Any]) -> None:
    """Write the result file: what was tried now, and the other columns as they were."""
    from tools.result_file import earlier, write_result

    values = earlier(RESULT) | new | {"kinds": len(known)}
    values["cases"] = {name: {"wrong": wrong, "reported": reported} for name, (wrong, reported) in known.items()}
    columns = values["ours"] | values.get("cells_of_peers", {})
    values["counts"] = {column: {verdict: sum(cell["verdict"] == verdict for cell in cells.values())
                                 for verdict in VERDICTS} for column, cells in columns.items()}
    if "ours" in new:
        write_result(packages=["torch", "jax", "numpy"], values=values)
    else:  # day, machine and versions of ours stay
        whole = json.loads(RESULT.read_text(encoding="utf-8")) | {"values": values}
        RESULT.write_text(json.dumps(whole, indent=2, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
