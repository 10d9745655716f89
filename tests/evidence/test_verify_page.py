"""The page next to a pack, in a real browser: it shows the root that `verify` shows, and refuses what was changed."""

import base64
import hashlib
import re
import shutil
import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser import chromium
from tests.evidence.packs import EXAMPLE, overwritten, seal_again, two_runs, unpacked
from workings.evidence.verify import verify
from workings.publish.pack import pack

pytestmark = pytest.mark.children


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = two_runs(tmp_path_factory.mktemp("page") / "runs")
    out = runs.parent / "thin.zip"
    pack([runs / "a", runs / "b"], out, weights="digest")
    return out


@pytest.fixture(scope="module")
def page(packed: Path) -> Iterator[Any]:
    """The page next to the pack, from disk, in a browser without a network; it may say nothing to the console."""
    said: list[str] = []
    with chromium() as new_page:
        page = new_page(offline=True)
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: said.append(request.url) if not request.url.startswith("file:") else None)
        page.goto(packed.with_suffix(".verify.html").as_uri())
        yield page
    assert said == []


def shown(page: Any, archive: Path, expected: str = "") -> tuple[str, str, str]:
    """Verdict, root and problems that the page shows of an archive."""
    page.get_by_label("Root digest that").fill(expected)
    page.get_by_label("Drop a zip here").set_input_files(archive)
    page.locator("#verdict:is(.good, .bad), #verdict.open:has-text('Not wholly')").wait_for()
    verdict = page.get_by_role("status").inner_text()
    page.get_by_label("Drop a zip here").set_input_files([])
    root = page.locator("#root").text_content() if page.locator("#found").is_visible() else ""
    return verdict, root, page.locator("#problems").text_content() if root else verdict


def zipped(folder: Path, out: Path) -> Path:
    return Path(shutil.make_archive(str(out), "zip", folder))


def test_good_archives_have_the_root_that_verify_shows(page: Any, packed: Path, tmp_path: Path) -> None:
    many = tmp_path / "runs"
    shutil.copytree(packed.parent / "runs", many)
    for archive in (packed, EXAMPLE, zipped(many, tmp_path / "many"),
                    zipped(many / "a" / "eval" / "items", tmp_path / "one")):
        verdict, root, _ = shown(page, archive)
        assert verdict.startswith(f"The files of {archive.name} are those that were sealed"), archive
        assert root == verify(archive, level=0).root
    root = verify(packed, level=0).root
    assert shown(page, packed, root)[0].endswith("under the root digest that you gave")
    assert "neither missing nor checked" in page.locator("#found").inner_text()
    assert f"workings verify thin.zip --expect-root {root}" in page.locator("#command").inner_text()
    assert "is not the one found" in shown(page, packed, "0" * 64)[2]


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def name_log_by_digest(at: Path) -> None:
    from workings.record.canonical import line, loads
    value = loads((at / "pack.json").read_bytes())
    row = value["by_digest"][0] | {"file": "train/metrics.jsonl", "place": "runs/a", "sha256": hashlib.sha256(
        (at / "runs/a/train/metrics.jsonl").read_bytes()).hexdigest()}
    (at / "pack.json").write_bytes(line(value | {"by_digest": [*value["by_digest"], row]}))
    (at / "runs/a/train/metrics.jsonl").unlink()
    seal_again(at)


CHANGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a changed byte": (lambda at: flip(at / "runs/a/train/metrics.jsonl"), "not those that were sealed"),
    "a missing file": (lambda at: (at / "runs/a/README.md").unlink(), "README.md is missing"),
    "an added file": (lambda at: (at / "runs/b/config/more.json").write_text("{}"), "more.json is in no sums"),
    "a renamed file": (lambda at: (at / "runs/a/README.md").rename(at / "runs/a/readme.md"), "readme.md is in no sums"),
    "a run taken out": (lambda at: shutil.rmtree(at / "runs/b"), "runs/b is listed and not here"),
    "an empty folder": (lambda at: (at / "runs/a/config/empty").mkdir(), "an empty folder"),
    "a changed report": (lambda at: (at / "report.html").write_text("<script>alert(1)</script>"), "report.html"),
    "a seal of another kind": (lambda at: (at / "runs/a/eval/items/SEAL.json").write_bytes(
        (at / "runs/a/eval/items/SEAL.json").read_bytes().replace(b'"unit":"eval"', b'"unit":"samples"')),
        "its place and files say eval"),
    "a log named by digest": (name_log_by_digest, "may not be named by digest"),
    "a seal that says two things": (lambda at: (at / "SEAL.json").write_bytes(
        (at / "SEAL.json").read_bytes().replace(b'"unit":"pack"', b'"unit":"run","unit":"pack"')), "SEAL.json"),
}


def test_changed_packs_fail_here_and_there(page: Any, packed: Path, tmp_path: Path) -> None:
    for number, (name, (change, message)) in enumerate(CHANGES.items()):
        change(folder := unpacked(packed, tmp_path / str(number)))
        changed = zipped(folder, folder)
        verdict, _, problems = shown(page, changed)
        assert (verdict[:6], message in problems) == ("FAILED", True), f"{name}: {verdict} {problems}"
        assert verify(changed, level=0).failed, name


def hide_before_the_table(data: bytearray) -> None:
    """Bytes of no file, as another file's local header could be, for programs that read from the front."""
    at = data.index(b"PK\x01\x02")
    end = data.rindex(b"PK\x05\x06")
    struct.pack_into("<L", data, end + 16, at + 40)
    data[at:at] = b"PK\x03\x04" + b"x" * 36


ENTRY, END, LOCAL = b"PK\x01\x02", b"PK\x05\x06", b"PK\x03\x04"
FAKES: dict[str, Callable[[bytearray], None]] = {
    "not a zip": overwritten(END, 0, b"XXXX"), "bytes after its end record": lambda data: data.extend(b"PK"),
    "a comment": overwritten(END, 20, b"\1\0"), "too large": overwritten(END, 12, b"\xf0\xff\xff\x7f"),
    "contradictory": overwritten(END, 16, b"\1\0\0\0"), "several disks": overwritten(END, 8, b"\7\0"),
    "ends early": lambda data: [overwritten(END, 8, b"\xff\0")(data), overwritten(END, 10, b"\xff\0")(data)],
    "encrypted": overwritten(ENTRY, 8, b"\x01"), "other than deflate": overwritten(ENTRY, 10, b"\x0e"),
    "overlaps": overwritten(ENTRY, 42, b"\2\0\0\0"), "fold": overwritten(ENTRY, 24, b"\xff\xff\xff\x0f"),
    "two headers with different sizes": overwritten(ENTRY, 24, b"\7\0\0\0"),
    "not the one in the table of contents": overwritten(LOCAL, 30, b"zzz"),
    "belong to no file": hide_before_the_table, "leads out of": overwritten(ENTRY, 46, b"../"),
    "claims more bytes": lambda data: [overwritten(mark, at, b"\xff\xff\xff\0")(data)
                                       for mark, at in ((ENTRY, 20), (LOCAL, 18))],
}


def test_zips_that_fake_are_refused(page: Any, packed: Path, tmp_path: Path) -> None:
    archive = tmp_path / "lying.zip"
    for message, fake in FAKES.items():
        data = bytearray(packed.read_bytes())
        fake(data)
        archive.write_bytes(data)
        verdict, root, _ = shown(page, archive)
        assert (message in verdict, "cannot be read" in verdict, root) == (True, True, ""), f"{message}: {verdict}"
    # Both headers claim fewer bytes than there are: found while the file is unpacked, and never held in memory.
    last = zipfile.ZipFile(packed).infolist()[-1]
    data = bytearray(packed.read_bytes())
    fewer = struct.pack("<L", last.file_size - 5)
    overwritten(ENTRY, 24, fewer)(data)
    overwritten(LOCAL, 22, fewer)(data)
    archive.write_bytes(data)
    assert "more bytes than it claims" in shown(page, archive)[2]


def test_a_zip_is_dropped(page: Any, packed: Path) -> None:
    page.get_by_label("Root digest that").fill("")
    page.evaluate("document.getElementById('verdict').textContent = ''")
    page.evaluate("""async (data) => {
      const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
      const transfer = new DataTransfer();
      transfer.items.add(new File([bytes], "dropped.zip"));
      document.getElementById("drop").dispatchEvent(new DragEvent("drop", {bubbles: true, dataTransfer: transfer}));
    }""", base64.b64encode(packed.read_bytes()).decode())
    page.get_by_text("The files of dropped.zip are those that were sealed").wait_for()


def test_the_policy_lets_only_its_own_script_run(packed: Path) -> None:
    text = packed.with_suffix(".verify.html").read_text("utf-8")
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', text)
    assert policy is not None
    for kind in ("script", "style"):
        inner = re.findall(rf"<{kind}>(.*?)</{kind}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inner[0].encode()).digest()).decode()
        assert (len(inner), f"{kind}-src 'sha256-{digest}'" in policy[1]) == (1, True)
    assert policy[1].startswith("default-src 'none'")
    assert "unsafe" not in policy[1]
    assert "http" not in text.replace("http-equiv", "")
