"""One writer per run directory: a lock on the folder itself, which the kernel releases when the process ends."""

import errno
import fcntl
import os
import time
from pathlib import Path

from workings.errors import RequestError, StorageError

ATTEMPTS, RETRY_SECONDS = 5, 0.01


class DirectoryLock:
    """An exclusive lock on a folder, held until `release` or the end of the process."""

    def __init__(self, path: Path) -> None:
        """Take the lock at once.

        Raises:
            RequestError: another process holds it.
            StorageError: the folder's file system has no locks.
        """
        self.path = path
        self._descriptor = _open(path)
        try:
            _lock_patiently(self._descriptor)
        except OSError as error:
            self.release()
            if error.errno == errno.EWOULDBLOCK:
                raise RequestError(f"another process is writing to {path}", "a run directory with one writer",
                                   "wait for that process, stop it, or choose another --out") from None
            raise StorageError(f"could not lock {path}: {error.strerror}; choose a folder on a local disk") from error
        # Another process may have sealed and renamed the folder between our open and our lock.
        if not path.exists() or not os.path.samestat(os.fstat(self._descriptor), path.stat()):
            self.release()
            raise RequestError(f"another process has just finished {path}", "an unfinished run directory", "")

    def release(self) -> None:
        """Let go of the lock; harmless when repeated."""
        if self._descriptor >= 0:
            # Closing gives the lock back.
            os.close(self._descriptor)
            self._descriptor = -1


def is_held(path: Path) -> bool:
    """Whether another process (or another lock of this one) holds a folder's lock. Asking takes it for a moment.

    Raises:
        OSError: the folder's file system has no locks.
    """
    if not path.exists():
        return False
    descriptor = _open(path)
    try:
        # Shared, so that two processes that ask at the same time do not take each other for a writer.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _open(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY)


def _lock_patiently(descriptor: int) -> None:
    """Lock; waits for a process that only tests the lock (`is_held`)."""
    for attempt in range(ATTEMPTS):
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if attempt == ATTEMPTS - 1:
                raise
            time.sleep(RETRY_SECONDS)
