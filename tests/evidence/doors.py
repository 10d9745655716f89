"""Attacks through every door of a record: each plants something in a run and names what must not happen.

A canary is a file that would appear if planted code ran. Every attack leaves a record that is sealed again, so that no
sum gives it away.
"""

import io
import json
import os
import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.evidence import denials, reseal
from tests.evidence.packs import overwritten
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


def planted(file: str, data: bytes | Callable[[Path], bytes], *, sealed: bool = True) -> Attack:
    """A file of these bytes; a function takes the canary's path."""
    def attack(run: Path, canary: Path) -> Path:
        (run / file).parent.mkdir(parents=True, exist_ok=True)
        (run / file).write_bytes(data(canary) if callable(data) else data)
        if file.startswith(LAST):
            reseal.recommit(run / LAST)
        if sealed:
            reseal.reseal(run)
        return run
    return attack


def edited(file: str, change: Callable[[Path], dict[str, Any]]) -> Attack:
    """Other keys of a JSON file."""
    return lambda run, canary: denials.resealed(
        lambda run: reseal.edit_json(run / file, lambda value: value | change(canary)))(run)


def completion(text: str) -> Attack:
    return lambda run, canary: denials.completion(text)(run)


def archive(*entries: tuple[str | zipfile.ZipInfo, bytes],
            change: Callable[[bytearray], object] = lambda data: None) -> Attack:
    """A zip of a sealed folder with these files, whose bytes are changed."""
    def attack(run: Path, canary: Path) -> Path:
        place, written = run.parent / "evil.zip", io.BytesIO()
        with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as target:
            for name, data in (("a/SEAL.json", b"{}"), *entries):
                target.writestr(name, data)
        data = bytearray(written.getvalue())
        change(data)
        place.write_bytes(data)
        return place
    return attack


def linked(name: str, target: str) -> tuple[zipfile.ZipInfo, bytes]:
    """An entry that is a link."""
    info = zipfile.ZipInfo(name)
    info.external_attr = (0o120777) << 16
    return info, target.encode()


def faked(change: Callable[[bytearray], object]) -> Attack:
    """An archive of one text with changed bytes."""
    return archive(("a/x.txt", b"hello " * 100), change=change)


def break_the_stream(data: bytearray) -> None:
    """No deflated stream begins like this."""
    at = data.index(b"a/x.txt") + len(b"a/x.txt")
    data[at:at + 6] = b"\xff" * 6


def tensors(header: object, body: bytes = b"") -> Attack:
    """A safetensors file with this header."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return planted("config/m.safetensors", struct.pack("<Q", len(text)) + text + body)


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
READABLE, PLAIN = "integrity.readable", "content.plain"
ENTRY, END = b"PK\x01\x02", b"PK\x05\x06"
"""Marks of the last entry of an archive's table of contents, and of its end record."""
DOORS: dict[str, tuple[Attack, str]] = {
    "a pickle as checkpoint": (planted(MODEL, lambda canary: pickle.dumps(Bomb(canary))), "content.plain"),
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
    "an archive that leads out": (lambda run, canary: archive((f"a/../../..{canary}", b"ran"))(run, canary),
                                  "integrity.readable"),
    "an archive bomb": (archive(("a/zeros.txt", bytes(200_000_000))), "integrity.readable"),
    "JSON of many values": (planted(ENVIRONMENT, lambda canary: b'{"a":[' + b"[]," * 9_000_000 + b"[]]}"), "form.json"),
    "tensors that claim a petabyte": (planted(MODEL, struct.pack("<Q", len(PETABYTE)) + PETABYTE), "content.plain"),
    "an envelope of a gigabyte": (envelope_of_a_gigabyte, "attestation.signed"),
    "many signatures": (planted(ENVELOPE, SIGNATURES, sealed=False), "attestation.signed"),
    "an evaluation with code": (planted("eval/1/note.py", lambda canary: f"open({str(canary)!r}, 'w')\n".encode(),
                                 sealed=False), "integrity.sealed"),
    # --- archives that contradict themselves
    "an absolute path": (archive(("/etc/evil.txt", b"x")), f"{READABLE}: leads out of the archive"),
    "a backslash": (archive(("a/b\\..\\evil.txt", b"x")), f"{READABLE}: leads out of the archive"),
    "a deep path": (archive(("a/" * 40 + "x", b"x")), f"{READABLE}: a path longer than"),
    "a space in a name": (archive(("a/two words.txt", b"x")), "integrity.names: not a path that a record may hold"),
    "a link in an archive": (archive(linked("a/link", "/etc/passwd")), "integrity.names: a link or a special file"),
    "an archive in an archive": (archive(("a/inner.zip", b"PK\x03\x04" + b"x" * 100)), f"{PLAIN}: a kind of file"),
    "an entry twice": (archive(("a/x.txt", b"one"), ("a/y.txt", b"two"), change=lambda data: [
        data.__setitem__(slice(at, at + 7), b"a/x.txt") for at in (data.index(b"a/y.txt"), data.rindex(b"a/y.txt"))]),
        f"{READABLE}: is in the zip twice"),
    "no end record": (faked(overwritten(END, 0, b"XXXX")), f"{READABLE}: has no end record"),
    "bytes after the end record": (faked(lambda data: data.extend(b"PK")), f"{READABLE}: no end record, or a comment"),
    "an archive of nothing": (faked(bytearray.clear), f"{READABLE}: a zip archive"),
    "a table of contents of gigabytes": (faked(overwritten(END, 12, b"\xf0\xff\xff\x7f")),
                                         f"{READABLE}: table of contents claims"),
    "more entries than there are": (faked(overwritten(END, 8, b"\7\0\7\0")),
                                    f"{READABLE}: end record claims 7 entries"),
    "two numbers of entries": (faked(overwritten(END, 10, b"\7\0")), f"{READABLE}: a contradictory end record"),
    "a large form that is not there": (faked(overwritten(END, 12, b"\xff\xff\xff\xff")),
                                       f"{READABLE}: contents claims 4,294,967,295 bytes"),
    "an encrypted entry": (faked(overwritten(ENTRY, 8, b"\x01")), f"{READABLE}: encrypted"),
    "another compression": (faked(overwritten(ENTRY, 10, b"\x0e")), f"{READABLE}: a method other than deflate"),
    "entries that overlap": (faked(overwritten(ENTRY, 42, b"\x02\0\0\0")), f"{READABLE}: overlaps"),
    "more bytes than the archive": (faked(overwritten(ENTRY, 20, b"\xff\xff\xff\0")), f"{READABLE}: claims more bytes"),
    "fewer bytes than are packed": (faked(overwritten(ENTRY, 24, struct.pack("<L", 9))), f"{PLAIN}: cannot be read"),
    "broken compression": (faked(break_the_stream), f"{PLAIN}: broken compression"),
    # --- files that do not belong
    "python": (planted("config/scorer.py", b"import os\n"), f"{PLAIN}: a kind of file"),
    "a file without a suffix": (planted("config/payload", b"x"), f"{PLAIN}: a kind of file"),
    "a pickle as text": (planted("config/notes.txt", pickle.dumps([1])), f"{PLAIN}: begins like a pickle"),
    "a program as text": (planted("config/notes.txt", b"\x7fELF\x02\x01"), f"{PLAIN}: begins like a program"),
    "zeros in a text": (planted("config/notes.txt", b"a\0b"), f"{PLAIN}: holds zero bytes"),
    "a text that is not UTF-8": (planted("config/notes.yaml", b"\xff\xfe"), f"{PLAIN}: can't decode"),
    "a cut character": (planted("config/notes.yaml", "é".encode()[:1]), f"{PLAIN}: can't decode"),
    "tensors that overlap": (tensors({"a": {"data_offsets": [0, 4]}, "b": {"data_offsets": [2, 6]}}, b"123456"),
                             f"{PLAIN}: overlap or leave gaps"),
    "bytes behind tensors": (tensors({"a": {"data_offsets": [0, 2]}}, b"123456"), f"{PLAIN}: tensors end at 2"),
    "a header that is a list": (tensors([1]), f"{PLAIN}: not a safetensors file"),
    "a header without end": (tensors(b"[" * 5000 + b"]" * 5000), f"{PLAIN}: not a safetensors file"),
    # --- strange JSON
    **{f"JSON: {name}": (planted("config/strange.json", data), f"form.json: {words}")
       for name, data, words in (
           ("open lists", b"[" * 200_000, "deeper"), ("deep objects", b'{"a":' * 100 + b"1" + b"}" * 100, "deeper"),
           ("a key twice", b'{"a":1,"a":2}', "given twice"), ("ten thousand digits", b"1" * 10_000, "not JSON"),
           ("65 lists", b"[" * 65 + b"]" * 65, "deeper than 64"), ("no number", b'{"a":NaN}', "NaN is not JSON"),
           ("no UTF-8", b'{"a":"\xff"}', "not JSON"), ("half a character", b'"\\ud800', "not JSON"),
           ("nothing", b"", "not JSON"), ("a byte order mark", b"\xef\xbb\xbf{}", "not JSON"))},
    "JSON: an infinite number": (planted("config/strange.json", b'{"a":1e999}'), ""),
}
"""Attack, and the id that fails, of some also words of its text (``id: words``); empty where the planted text is inert
and nothing needs to fail."""
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
