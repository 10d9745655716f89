"""Access to the file system: opening files and folders, and errors of failed writes.

Flags differ between systems: POSIX has some that Windows lacks, and opens folders. What the system says when a write
fails becomes a message that a user can act on.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from workings.errors import RequestError, StorageError

PRIVATE = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
"""Flags of files that children do not inherit (on Windows they never do), with bytes unchanged."""
PLAIN_ONLY = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""Flags with which links are not followed, and pipes are not waited for."""
FOLDERS = hasattr(os, "O_DIRECTORY")
"""Whether a folder can be opened: to be locked, and to wait until its names are on the disk."""
SYNCABLE = os.O_RDONLY if FOLDERS else os.O_RDWR
"""Flags to open a file for syncing; Windows needs write access."""

_ADVICE = {
    errno.ENOSPC: "the disk is full: free some space and start again with --resume",
    errno.EDQUOT: "the disk quota is used up: free some space and start again with --resume",
    errno.EFBIG: "the file may not grow further (a limit on file size): raise it or write elsewhere with --out",
    errno.EROFS: "the file system is read-only: choose another folder with --out",
    errno.EACCES: "permission is missing: choose another folder with --out, or change its permissions",
    errno.EPERM: "the operation is not permitted: choose another folder with --out, or change its permissions",
    errno.EIO: "the disk reports an error: check it before going on",
    errno.EMFILE: "too many files are open: raise the limit (ulimit -n)",
    errno.ENAMETOOLONG: "the path is too long: choose a shorter --out",
    errno.EEXIST: "a file of that name is in the way: choose another --out",
    errno.ENOTDIR: "a part of the path is a file and not a folder: choose another --out",
}


@contextmanager
def storage(path: Path, doing: str) -> Iterator[None]:
    """Turn an `OSError` of the wrapped block into a `StorageError` that names the file and what to do.

    Args:
        path: the file or folder.
        doing: a verb in the infinitive, e.g. ``"write"``.
    """
    try:
        yield
    except OSError as error:
        raise storage_error(error, path, doing) from error


def is_of_the_disk(error: OSError) -> bool:
    """Whether an error is about the given path, and not one of the program."""
    return error.errno in _ADVICE


def storage_error(error: OSError, path: Path | str, doing: str) -> StorageError:
    """An error of the operating system as one that names the file and what to do. Arguments are those of `storage`."""
    code = error.errno if error.errno is not None else 0
    # A folder that is there and takes no file of this name, such as /proc.
    takes_none = code == errno.ENOENT and Path(path).parent.is_dir()
    why = ("no file can be created in its folder: choose another folder with --out" if takes_none else
           _ADVICE.get(code, error.strerror or str(error)))
    failed = StorageError(f"could not {doing} {path}: {why} ({errno.errorcode.get(code, 'no code')})")
    # Nothing failed: a place was named that cannot be written.
    if takes_none or code in (errno.EACCES, errno.EPERM, errno.EROFS):
        failed.exit_code = RequestError.exit_code
    return failed
