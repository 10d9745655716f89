"""Attacks through every door of a record: each plants something in a run and names what must not happen.

A canary is a file that would appear if planted code ran. Every attack leaves a record that is sealed again, so that no
sum gives it away.
"""

import json
import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

from tests.evidence import reseal
from workings.record import canonical


class Bomb:
    """Runs a command when it is unpickled."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> tuple[Callable[..., object], tuple[str]]:
        return eval, (f"__import__('pathlib').Path({str(self.canary)!r}).write_text('ran')",)


def pickle_as_checkpoint(run: Path, canary: Path) -> Path:
    (run / "checkpoints/step_000006/model.safetensors").write_bytes(pickle.dumps(Bomb(canary)))
    reseal.recommit(run / "checkpoints/step_000006")
    return sealed(run)


def pickle_behind_tensors(run: Path, canary: Path) -> Path:
    with (run / "checkpoints/step_000006/model.safetensors").open("ab") as stream:
        stream.write(pickle.dumps(Bomb(canary)))
    reseal.recommit(run / "checkpoints/step_000006")
    return sealed(run)


def code_as_scorer(run: Path, canary: Path) -> Path:
    code = f"__import__('pathlib').Path({str(canary)!r}).write_text('ran')"
    reseal.edit_json(run / "eval/test/eval_config.json", lambda value: value | {
        "scorer": {"name": f"{run}/evil.py:score", "version": "1", "code": code}})
    return sealed(run)


def template_injection(run: Path, canary: Path) -> Path:
    template = ("{{ cycler.__init__.__globals__.os.popen('touch " + str(canary) + "').read() }}")
    reseal.edit_json(run / "config/tokenizer/tokenizer_config.json", lambda value: value | {"chat_template": template})
    return sealed(run)


def yaml_tag(run: Path, canary: Path) -> Path:
    (run / "config/recipe.yaml").write_text(f"a: !!python/object/apply:os.system ['touch {canary}']\n")
    return sealed(run)


def script_as_readme(run: Path, canary: Path) -> Path:
    (run / "README.md").write_text(f"#!/bin/sh\ntouch {canary}\n")
    return sealed(run)


def regex_bomb_in_a_completion(run: Path, canary: Path) -> Path:
    return completion(run, "<answer>" * 20_000 + "1" + ",1" * 20_000)


def number_bomb_in_a_completion(run: Path, canary: Path) -> Path:
    return completion(run, "<answer>9**9**9**9**9</answer>")


def long_number_in_a_completion(run: Path, canary: Path) -> Path:
    return completion(run, f"<answer>{'9' * 200_000}e{'9' * 100}</answer>")


def archive_that_leads_out(run: Path, canary: Path) -> Path:
    archive = run.parent / "evil.zip"
    with zipfile.ZipFile(archive, "w") as target:
        target.writestr("a/SEAL.json", "{}")
        target.writestr(f"a/../../..{canary}", "ran")
    return archive


def archive_bomb(run: Path, canary: Path) -> Path:
    archive = run.parent / "bomb.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as target:
        target.writestr("a/SEAL.json", "{}")
        target.writestr("a/zeros.txt", bytes(200_000_000))
    return archive


def link_to_a_secret(run: Path, canary: Path) -> Path:
    (run / "config/recipe.yaml").unlink()
    (run / "config/recipe.yaml").symlink_to("/etc/passwd")
    return run


def json_without_end(run: Path, canary: Path) -> Path:
    (run / "env/env_info.json").write_text("[" * 200_000 + "]" * 200_000)
    return sealed(run)


def json_of_many_values(run: Path, canary: Path) -> Path:
    (run / "env/env_info.json").write_text('{"a":[' + "[]," * 9_000_000 + "[]]}")
    return sealed(run)


def tensors_that_claim_a_petabyte(run: Path, canary: Path) -> Path:
    header = json.dumps({"w": {"dtype": "F32", "shape": [1 << 50], "data_offsets": [0, 1 << 52]}}).encode()
    path = run / "checkpoints/step_000006/model.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header)
    reseal.recommit(run / "checkpoints/step_000006")
    return sealed(run)


def envelope_of_a_gigabyte(run: Path, canary: Path) -> Path:
    (run / "attest").mkdir()
    with (run / "attest/001.dsse.json").open("wb") as stream:
        stream.truncate(1 << 30)
    return run


def many_signatures(run: Path, canary: Path) -> Path:
    (run / "attest").mkdir()
    row = {"keyid": "ab" * 32, "sig": "AAAA"}
    (run / "attest/001.dsse.json").write_bytes(canonical.line({
        "payload": "e30=", "payloadType": "application/vnd.in-toto+json", "signatures": [row] * 20_000}))
    return run


def note_with_code(run: Path, canary: Path) -> Path:
    (run / "notes/1").mkdir(parents=True)
    (run / "notes/1/note.py").write_text(f"open({str(canary)!r}, 'w')\n")
    return run


def completion(run: Path, text: str) -> Path:
    """Put a text in the place of the first completion, with its digest left out as the recorder does for none."""
    reseal.edit_lines(run / "eval/test/predictions.jsonl", lambda rows: [{**rows[0], "completion": text}, *rows[1:]])
    return sealed(run)


def sealed(run: Path) -> Path:
    reseal.reseal(run)
    return run


DOORS: dict[Callable[[Path, Path], Path], str] = {
    pickle_as_checkpoint: "content.plain", pickle_behind_tensors: "content.plain", code_as_scorer: "",
    template_injection: "", yaml_tag: "", script_as_readme: "content.plain",
    regex_bomb_in_a_completion: "recompute.scores", number_bomb_in_a_completion: "recompute.scores",
    long_number_in_a_completion: "recompute.scores", archive_that_leads_out: "integrity.readable",
    archive_bomb: "integrity.readable", link_to_a_secret: "integrity.names", json_without_end: "form.json",
    json_of_many_values: "form.json", tensors_that_claim_a_petabyte: "content.plain",
    envelope_of_a_gigabyte: "attestation.signed", many_signatures: "attestation.signed",
    note_with_code: "integrity.sealed",
}
"""Attack, and the id that fails; empty where the planted text is inert and nothing needs to fail."""
