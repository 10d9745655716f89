"""Copies files of an object store (`gs://…`, `s3://…`) to this machine, by fsspec.

    gs://bucket/data/traces.jsonl  ->  CACHE/objects/DIGEST/data/traces.jsonl

The digest is of the versions of the objects. The store is asked for them every time, so a copy is used only while its
objects are unchanged. Without the network there is an error, not an old copy.
"""

import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatch
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any

from workings.errors import RequestError
from workings.hardware.machine import cache_directory
from workings.hints import pip_install

STORED = "object store"
"""Revision of weights that were copied from a store."""
EXTRA = "stores"
MARKS = ("etag", "ETag", "generation", "md5Hash", "crc32c", "mtime", "created", "updated", "LastModified", "size")
"""Attributes of an object that change with its content."""
ADVICE = "check the address and your credentials for the store"
Listing = Mapping[str, Mapping[str, Any]]
"""Path below a folder -> attributes of the object."""


def is_stored(name: str) -> bool:
    """Whether a name is an object's address and not a path of this machine."""
    scheme, separator, _ = name.partition("://")
    return bool(separator) and scheme.isalnum()


def local_name(name: str) -> str:
    """The path of a copy of an object; a local name as it is. Raises `RequestError` if the object cannot be read."""
    if not is_stored(name):
        return name
    store = open_store(name)
    with _reading(name):
        attributes = store.info(root_of(store, name))
    if attributes.get("type") != "file":
        raise RequestError(f"{name} is a folder", "an object, which is a file", f"{name.rstrip('/')}/FILE")
    parent, _, last = name.rpartition("/")
    return str(_copied(store, parent, {last: attributes}) / last)


def stored_folder(url: str, patterns: Sequence[str], *, wanted: Sequence[str] = ("*",)) -> Path:
    """Copies the ``wanted`` objects below an address and returns the local folder.

    The folder depends on the versions of all objects whose names fit ``patterns``. Raises `RequestError` if the store
    cannot be reached, or has no such objects.
    """
    store = open_store(url)
    files = {name: attributes for name, attributes in listing(store, url).items() if _matches(name, patterns)}
    return _copied(store, url, files, wanted)


def _copied(store: Any, url: str, objects: Listing, wanted: Sequence[str] = ("*",)) -> Path:
    """The local folder for these versions of objects, with copies of those that are wanted."""
    # As text, because stores return different types for the same version.
    versions = {name: {key: str(attributes[key]) for key in MARKS if key in attributes}
                for name, attributes in objects.items()}
    digest = sha256(json.dumps([url, versions], sort_keys=True).encode()).hexdigest()
    folder = cache_directory() / "objects" / digest / url.rstrip("/").rpartition("/")[2]
    copy(store, url, {name: attributes for name, attributes in objects.items() if _matches(name, wanted)}, folder)
    return folder


def listing(store: Any, url: str) -> Listing:
    """Lists the objects below an address. Raises `RequestError` without any, or if a name leads elsewhere."""
    root = root_of(store, url)
    with _reading(url):
        entries = store.find(root, detail=True)
    named = {path.removeprefix(root).lstrip("/"): attributes for path, attributes in entries.items() if path != root}
    if not named:
        raise RequestError(f"{url} is empty", "a folder with objects that you may read", ADVICE)
    for name in named:
        # The name decides where the copy is written.
        if ".." in PurePosixPath(name).parts or "\\" in name:
            raise RequestError(f"{url} has an object named {name}", "names that stay below their folder",
                               "another folder")
    return named


def copy(store: Any, url: str, objects: Listing, folder: Path) -> None:
    """Copies objects below an address into a folder; existing files stay. Raises `RequestError`."""
    root = root_of(store, url)
    for name, attributes in objects.items():
        path = folder / name
        if path.is_file():
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        # Next to the path, so that the rename is atomic and an incomplete copy never looks complete.
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".copying-") as temporary:
            received = Path(temporary, "copy")
            with _reading(f"{url}/{name}"):
                store.get_file(f"{root}/{name}", str(received))
            size = received.stat().st_size
            if "size" in attributes and size != attributes["size"]:
                raise RequestError(f"{url}/{name}: {size} bytes were received instead of {attributes['size']}",
                                   "an object that does not change while it is copied", "the same command again")
            received.replace(path)


def open_store(url: str) -> Any:
    """The fsspec file system of an address. Raises `RequestError` if its package is not installed."""
    scheme = url.partition("://")[0]
    # The last part becomes the name of a folder or a file on this machine.
    if url.rstrip("/").rpartition("/")[2] in (".", ".."):
        raise RequestError(f"{url} does not end with a name", "an address that ends with a name", ADVICE)
    try:
        import fsspec

        return fsspec.filesystem(scheme)
    except ImportError as missing:
        raise RequestError(f"this environment cannot read {url} ({missing})",
                           f"the package for it; the extra `{EXTRA}` brings those of gs:// and s3://",
                           pip_install(EXTRA)) from None
    except ValueError:
        raise RequestError(f"{url} begins with an unknown scheme", "an address such as gs://bucket/traces.jsonl",
                           "gs:// or s3://") from None


def root_of(store: Any, url: str) -> str:
    """An address in the store's file system."""
    # fsspec has no public name for this; every file system implements it.
    return str(store._strip_protocol(url)).rstrip("/")


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)


@contextmanager
def _reading(url: str) -> Iterator[None]:
    """Turns errors of the store's client into `RequestError`."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - each store's client has errors of its own
        # Cut, because clients put whole server responses into it.
        message = " ".join(f"{type(error).__name__}: {error}".split())[:200].removesuffix(":")
        raise RequestError(f"{url} cannot be read: {message}", "an existing object that you may read", ADVICE) from None
