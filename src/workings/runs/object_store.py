"""Files in an object store (`gs://…`, `s3://…`): copied to this machine by fsspec, under the store's own mark of them.

A store is always asked what it holds now: a copy is used again only while its objects bear the marks that they had
when they were copied. Without the network there is an error and no older copy.
"""

import json
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatch
from hashlib import sha256
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import Any

from workings.errors import RequestError
from workings.hardware.machine import cache_directory
from workings.hints import pip_install

STORED = "object store"
"""Stands where a commit would stand, for weights that were copied from a store."""
EXTRA = "stores"
MARKS = ("etag", "ETag", "generation", "md5Hash", "crc32c", "mtime", "created", "updated", "LastModified", "size")
"""What stores say of an object that changes with its content."""
RAISED = ("aiohttp.ClientError", "botocore.exceptions.BotoCoreError", "gcsfs.retry.HttpError",
          "google.auth.exceptions.GoogleAuthError")
"""Errors of the stores' clients that are no `OSError`."""
ADVICE = "check the address, and who you are to the store"
Listing = Mapping[str, Mapping[str, Any]]
"""Path below a folder -> what the store says of that object."""


def is_stored(name: str) -> bool:
    """Whether a name is an object's address and not a path of this machine."""
    scheme, separator, _ = name.partition("://")
    return bool(separator) and scheme.isalnum()


def local_name(name: str) -> str:
    """The path of a copy of an object; any other name as it is.

    Raises:
        RequestError: the store cannot be asked, or has no such object.
    """
    if not is_stored(name):
        return name
    store = open_store(name)
    parent, _, last = name.rpartition("/")
    if (said := about(store, name)).get("type") != "file":
        raise RequestError(f"{name}, a folder", "an object, which is a file", f"{name.rstrip('/')}/FILE")
    return str(_copied(store, parent, {last: said}) / last)


def stored_folder(url: str, patterns: Sequence[str], *, wanted: Sequence[str] = ("*",)) -> Path:
    """A folder of this machine with copies of objects below an address.

    Args:
        url: the folder's address.
        patterns: of the names below it that belong together; the copy's place follows from what these hold.
        wanted: of the names to copy now.

    Raises:
        RequestError: the store cannot be asked, or there is nothing of these names.
    """
    store = open_store(url)
    files = {name: said for name, said in listing(store, url).items() if _matches(name, patterns)}
    return _copied(store, url, files, wanted)


def _copied(store: Any, url: str, listing: Listing, wanted: Sequence[str] = ("*",)) -> Path:
    """The folder for objects with the marks that these have, with those in it that are wanted."""
    marks = {name: {key: str(said[key]) for key in MARKS if key in said} for name, said in listing.items()}
    digest = sha256(json.dumps([url, marks], sort_keys=True).encode()).hexdigest()
    folder = cache_directory() / "objects" / digest / url.rstrip("/").rpartition("/")[2]
    copy(store, url, {name: said for name, said in listing.items() if _matches(name, wanted)}, folder)
    return folder


def about(store: Any, url: str) -> Mapping[str, Any]:
    """What a store says of one address; `type` tells objects from folders. Raises `RequestError`."""
    try:
        facts: Mapping[str, Any] = store.info(root_of(store, url))
    except _errors() as error:
        raise _unreachable(url, error) from None
    return facts


def listing(store: Any, url: str) -> Listing:
    """What lies below an address. Raises `RequestError` where that is nothing, or a name leads elsewhere."""
    root = root_of(store, url)
    try:
        entries = store.find(root, detail=True)
    except _errors() as error:
        raise _unreachable(url, error) from None
    named = {path.removeprefix(root).lstrip("/"): said for path, said in entries.items() if path != root}
    if not named:
        raise RequestError(f"{url}, in which there is nothing", "a folder with objects that you may read", ADVICE)
    # A name from a store decides where a file is written here.
    if wrong := [name for name in named if ".." in PurePosixPath(name).parts or "\\" in name]:
        raise RequestError(f"{url}: an object named {wrong[0]}", "names that stay below their folder", "another folder")
    return named


def copy(store: Any, url: str, listing: Listing, folder: Path) -> None:
    """Copy objects below an address into a folder; those that are there stay. Raises `RequestError`."""
    root = root_of(store, url)
    for name, said in listing.items():
        place = folder / name
        if place.is_file():
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        # Beside its place and renamed, so that a copy that is cut short is never taken for a whole one.
        with tempfile.TemporaryDirectory(dir=place.parent, prefix=".copying-") as half:
            try:
                store.get_file(f"{root}/{name}", f"{half}/copy")
            except _errors() as error:
                raise _unreachable(f"{url}/{name}", error) from None
            size = Path(half, "copy").stat().st_size
            if "size" in said and size != said["size"]:
                raise RequestError(f"{url}/{name}: {size} bytes came, and the store says {said['size']}",
                                   "an object that nobody changes while it is copied", "the same command again")
            Path(half, "copy").replace(place)


def open_store(url: str) -> Any:
    """The file system of fsspec for an address. Raises `RequestError` where its package is not installed."""
    scheme = url.partition("://")[0]
    # The last part becomes the name of a folder or a file here.
    if url.rstrip("/").rpartition("/")[2] in (".", ".."):
        raise RequestError(url, "an address that ends with a name", ADVICE)
    try:
        import fsspec

        return fsspec.filesystem(scheme)
    except ImportError as missing:
        raise RequestError(f"{url}, and this environment cannot read {scheme}:// ({missing})",
                           f"the package for it; the extra `{EXTRA}` brings those of gs:// and s3://",
                           pip_install(EXTRA)) from None
    except ValueError:
        raise RequestError(f"{url}: {scheme}://", "an address that fsspec knows, such as gs://bucket/traces.jsonl",
                           "gs:// or s3://") from None


def root_of(store: Any, url: str) -> str:
    """An address as the store's file system calls it."""
    return str(store._strip_protocol(url)).rstrip("/")


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)


def _errors() -> tuple[type[Exception], ...]:
    """What stores raise; of clients that are not installed nothing."""
    kinds: list[type[Exception]] = [OSError]
    for name in RAISED:
        module, _, attribute = name.rpartition(".")
        try:
            kinds.append(getattr(import_module(module), attribute))
        except ModuleNotFoundError:
            continue
    return tuple(kinds)


def _unreachable(url: str, error: Exception) -> RequestError:
    said = " ".join(str(error).split())[:200]
    return RequestError(f"{url}: {type(error).__name__}" + (f": {said}" if said else ""),
                        "an object that is there, and that you may read", ADVICE)
