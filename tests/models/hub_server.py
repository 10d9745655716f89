"""A Hub on this machine: one repository with a branch, a tag, its files, and a gated one, in the Hub's own protocol."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from tests.http_server import Handler, serving

COMMIT = "0123456789abcdef0123456789abcdef01234567"
REPOSITORY = "someone/small-model"
GATED = "someone/gated-model"


class Hub(Handler):
    """Answers for its files; notes the names of those that are fetched."""

    files: ClassVar[dict[str, bytes]] = {}
    asked: ClassVar[list[str]] = []

    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self.answer(body=False)

    def do_GET(self) -> None:
        self.answer(body=True)

    def answer(self, body: bool) -> None:
        path = self.path.split("?")[0]
        if GATED in path:
            self.say(403, {"error": "Access to model is restricted"}, body, {"X-Error-Code": "GatedRepo"})
        elif REPOSITORY not in path:
            self.say(404, {"error": "Repository not found"}, body, {"X-Error-Code": "RepoNotFound"})
        elif path.startswith("/api/"):
            self.about(path, body)
        else:
            self.file(path.rpartition("/")[2], body)

    def about(self, path: str, body: bool) -> None:
        revision = path.partition("/revision/")[2]
        if path.endswith("/auth-check"):
            self.say(200, {}, body)
        elif "/tree/" in path:
            self.say(200, [{"type": "file", "path": name, "size": len(data), "oid": oid(data)}
                           for name, data in self.files.items()], body)
        elif revision in ("", "main", "v1", COMMIT):
            self.say(200, {"id": REPOSITORY, "sha": COMMIT, "private": False,
                           "siblings": [{"rfilename": name} for name in self.files]}, body)
        else:
            self.say(404, {"error": "Invalid rev id"}, body, {"X-Error-Code": "RevisionNotFound"})

    def file(self, name: str, body: bool) -> None:
        if name not in self.files:
            self.say(404, {"error": "Entry not found"}, body, {"X-Error-Code": "EntryNotFound"})
            return
        if body:
            self.asked.append(name)
        self.send(200, self.files[name], body, {"X-Repo-Commit": COMMIT, "ETag": f'"{oid(self.files[name])}"'})

    def say(self, status: int, value: Any, body: bool = True, headers: dict[str, str] | None = None) -> None:
        self.send(status, json.dumps(value).encode(), body, {"Content-Type": "application/json", **(headers or {})})

    def send(self, status: int, data: bytes, body: bool, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if body:
            self.wfile.write(data)


def oid(data: bytes) -> str:
    """A file's id, as git has it."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


@contextmanager
def hub(files: dict[str, bytes]) -> Iterator[tuple[str, list[str]]]:
    """The address of a running Hub, and the list of files that were fetched from it."""
    asked: list[str] = []
    with serving(type("Hub", (Hub,), {"files": files, "asked": asked})) as address:
        yield address, asked
