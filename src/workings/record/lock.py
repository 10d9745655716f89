"""One writer per run directory: a lock on the folder, which the kernel releases when the process ends.

On Windows, which cannot lock folders, a hidden file next to the folder is locked, and removed with the lock.
"""

import contextlib
import errno
import os
import time
from pathlib import Path

from workings.errors import RequestError, StorageError
from workings.record.storage import FOLDERS, PRIVATE

try:
    import fcntl
except ImportError:  # Windows
    import msvcrt

HELD = (errno.EWOULDBLOCK, errno.EACCES, errno.EDEADLK)
"""Error codes of a lock that another process holds: of flock, and two of Windows."""
ATTEMPTS, RETRY_SECONDS = 5, 0.01


class DirectoryLock:
    """An exclusive lock on a folder, held until `release` or the end of the process."""

    def __init__(self, path: Path) -> None:
        """Take the lock. Raises `RequestError` if another process holds it, `StorageError` if there are no locks."""
        self.path = path
        self._lock_path = _lock_path(path)
        self._descriptor = _open(self._lock_path)
        try:
            _lock_patiently(self._descriptor)
        except OSError as error:
            os.close(self._descriptor)
            self._descriptor = -1
            if error.errno in HELD:
                raise RequestError(f"another process is writing to {path}", "a run directory with one writer",
                                   "wait for that process, stop it, or choose another --out") from None
            raise StorageError(f"could not lock {path}: {error.strerror}; choose a folder on a local disk") from error
        # Another process may have sealed and renamed the folder between our open and our lock.
        if not path.exists() or (FOLDERS and not os.path.samestat(os.fstat(self._descriptor), path.stat())):
            self.release()
            raise RequestError(f"another process has just finished {path}", "an unfinished run directory", "")

    def release(self) -> None:
        """Let go of the lock; harmless when repeated."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            if not FOLDERS:
                with contextlib.suppress(OSError):  # another process has opened it
                    self._lock_path.unlink()


def is_held(path: Path) -> bool:
    """Whether a folder's lock is held, by this process or another. Raises `OSError` where there are no locks."""
    lock_path = _lock_path(path)
    if not lock_path.exists():
        return False
    descriptor = _open(lock_path)
    try:
        # Shared (but on Windows), so that two processes that ask at the same time do not take each other for a writer.
        _lock(descriptor, shared=True)
    except OSError as error:
        if error.errno in HELD:
            return True
        raise
    finally:
        os.close(descriptor)
    return False


def _lock_path(path: Path) -> Path:
    # Next to the folder and not in it, because a sealed folder may hold no further file.
    return path if FOLDERS else path.with_name(f".{path.name}.lock")


def _open(lock_path: Path) -> int:
    return os.open(lock_path, os.O_RDONLY | os.O_DIRECTORY | PRIVATE if FOLDERS else os.O_RDWR | os.O_CREAT | PRIVATE)


def _lock_patiently(descriptor: int) -> None:
    """Lock; waits for a process that only tests the lock (`is_held`)."""
    for _ in range(ATTEMPTS):
        try:
            _lock(descriptor)
            return
        except OSError as error:
            if error.errno not in HELD:
                raise
            time.sleep(RETRY_SECONDS)
    _lock(descriptor)


def _lock(descriptor: int, *, shared: bool = False) -> None:
    """Lock an open folder or file, or raise `OSError` at once; closing it unlocks it."""
    if FOLDERS:
        # The lock belongs to this descriptor: the kernel frees it when the process ends, however it ends.
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    else:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
