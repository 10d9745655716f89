"""Attacks through every door of a record: each plants something in a run and names what must not happen.

A canary is a file that would appear if planted code ran. Every attack leaves a record that is sealed again, so that no
sum gives it away.
"""

import json
import os
import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.evidence import reseal
from tests.evidence.denials import resealed
from workings.record import canonical


class Bomb:
    """Runs a command when it is unpickled."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> tuple[Callable[..., object], tuple[str]]:
        return eval, (f"__import__('pathlib').Path({str(self.canary)!r}).write_text('ran')",)


Attack = Callable[[Path, Path], Path]
"""Plants something in a run that would make the canary; what is to be read then."""
LAST, MODEL = "checkpoints/step_000006", "checkpoints/step_000006/model.safetensors"
ENVIRONMENT, ENVELOPE = "env/env_info.json", "attest/001.dsse.json"


def planted(file: str, data: Callable[[Path], bytes], *, sealed: bool = True) -> Attack:
    """A file of these bytes, which take the canary's path."""
    def attack(run: Path, canary: Path) -> Path:
        (run / file).parent.mkdir(parents=True, exist_ok=True)
        (run / file).write_bytes(data(canary))
        if file.startswith(LAST):
            reseal.recommit(run / LAST)
        if sealed:
            reseal.reseal(run)
        return run
    return attack


def edited(file: str, change: Callable[[Path], dict[str, Any]]) -> Attack:
    """Other keys of a JSON file."""
    return lambda run, canary: resealed(
        lambda run: reseal.edit_json(run / file, lambda value: value | change(canary)))(run)


def completion(text: str) -> Attack:
    """A text in the place of the first completion, with its digest left out as the recorder does for none."""
    return lambda run, canary: resealed(lambda run: reseal.edit_lines(
        run / "eval/test/predictions.jsonl", lambda rows: [{**rows[0], "completion": text}, *rows[1:]]))(run)


def archive(name: Callable[[Path], str], data: bytes) -> Attack:
    """A zip with a file of this name."""
    def attack(run: Path, canary: Path) -> Path:
        place = run.parent / "evil.zip"
        with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as target:
            target.writestr("a/SEAL.json", "{}")
            target.writestr(name(canary), data)
        return place
    return attack


def pickle_behind_tensors(run: Path, canary: Path) -> Path:
    return planted(MODEL, lambda canary: (run / MODEL).read_bytes() + pickle.dumps(Bomb(canary)))(run, canary)


def link_to_a_secret(run: Path, canary: Path) -> Path:
    (run / "config/recipe.yaml").unlink()
    (run / "config/recipe.yaml").symlink_to("/etc/passwd")
    return run


def envelope_of_a_gigabyte(run: Path, canary: Path) -> Path:
    planted(ENVELOPE, lambda canary: b"", sealed=False)(run, canary)
    os.truncate(run / ENVELOPE, 1 << 30)
    return run


def written(canary: Path) -> str:
    """Code that writes the canary."""
    return f"__import__('pathlib').Path({str(canary)!r}).write_text('ran')"


PETABYTE = json.dumps({"w": {"dtype": "F32", "shape": [1 << 50], "data_offsets": [0, 1 << 52]}}).encode()
SIGNATURES = canonical.line({"payload": "e30=", "payloadType": "application/vnd.in-toto+json",
                             "signatures": [{"keyid": "ab" * 32, "sig": "AAAA"}] * 20_000})
DOORS: dict[str, tuple[Attack, str]] = {
    "a pickle as checkpoint": (planted(MODEL, lambda canary: pickle.dumps(Bomb(canary))), "content.plain"),
    "a pickle behind tensors": (pickle_behind_tensors, "content.plain"),
    "code as scorer": (edited("eval/test/eval_config.json", lambda canary: {
        "scorer": {"name": "/evil.py:score", "version": "1", "code": written(canary)}}), ""),
    "template injection": (edited("config/tokenizer/tokenizer_config.json", lambda canary: {
        "chat_template": f"{{{{ cycler.__init__.__globals__.os.popen('touch {canary}').read() }}}}"}), ""),
    "a YAML tag": (planted("config/recipe.yaml", lambda canary: (
        f"a: !!python/object/apply:os.system ['touch {canary}']\n".encode())), ""),
    "a script as README": (planted("README.md", lambda canary: f"#!/bin/sh\ntouch {canary}\n".encode()),
                           "content.plain"),
    "a regex bomb in a completion": (completion("<answer>" * 20_000 + "1" + ",1" * 20_000), "recompute.scores"),
    "a number bomb in a completion": (completion("<answer>9**9**9**9**9</answer>"), "recompute.scores"),
    "a long number in a completion": (completion(f"<answer>{'9' * 200_000}e{'9' * 100}</answer>"), "recompute.scores"),
    "an archive that leads out": (archive(lambda canary: f"a/../../..{canary}", b"ran"), "integrity.readable"),
    "an archive bomb": (archive(lambda canary: "a/zeros.txt", bytes(200_000_000)), "integrity.readable"),
    "a link to a secret": (link_to_a_secret, "integrity.names"),
    "JSON without end": (planted(ENVIRONMENT, lambda canary: b"[" * 200_000 + b"]" * 200_000), "form.json"),
    "JSON of many values": (planted(ENVIRONMENT, lambda canary: b'{"a":[' + b"[]," * 9_000_000 + b"[]]}"), "form.json"),
    "tensors that claim a petabyte": (planted(MODEL, lambda canary: struct.pack("<Q", len(PETABYTE)) + PETABYTE),
                                      "content.plain"),
    "an envelope of a gigabyte": (envelope_of_a_gigabyte, "attestation.signed"),
    "many signatures": (planted(ENVELOPE, lambda canary: SIGNATURES, sealed=False), "attestation.signed"),
    "an evaluation with code": (planted("eval/1/note.py", lambda canary: f"open({str(canary)!r}, 'w')\n".encode(),
                                 sealed=False), "integrity.sealed"),
}
"""Attack, and the id that fails; empty where the planted text is inert and nothing needs to fail."""
SECONDS, MEBIBYTES = 60, 1500
"""Processor time and memory that a child gets; a good record of this size takes a second and a hundred MiB."""
VERIFY = """
import json, resource, sys
resource.setrlimit(resource.RLIMIT_AS, ({memory} << 20, {memory} << 20))
resource.setrlimit(resource.RLIMIT_CPU, ({seconds}, {seconds}))
from pathlib import Path
from workings.evidence.verify import verify
found = verify(Path(sys.argv[1]))
# `ru_maxrss` of a process counts what its parent held when it was forked; the mark of this program does not.
own = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
peak = max(int(own.split()[1]), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
print(json.dumps([[one.id for one in found.checks if one.verdict == "failed"], peak]))
"""
