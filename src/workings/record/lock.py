"""One writer per run directory. The lock is the kernel's, on the folder itself: it leaves no file and dies with us."""

import errno
import fcntl
import os
from pathlib import Path

from workings.errors import RequestError, StorageError


class DirectoryLock:
    """An exclusive lock on a folder, held until `release` or the end of the process."""

    def __init__(self, path: Path) -> None:
        """Take the lock at once.

        Raises:
            RequestError: another process holds it.
            StorageError: the folder's file system has no locks.
        """
        self.path = path
        self._descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.release()
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise RequestError(f"{path}, which another process is writing to", "a run directory with one writer",
                                   "wait for that process, stop it, or choose another --out") from None
            raise StorageError(f"could not lock {path}: {error.strerror}; choose a folder on a local disk") from error
        # Another process may have sealed and renamed the folder between our open and our lock.
        if not path.exists() or not os.path.samestat(os.fstat(self._descriptor), path.stat()):
            self.release()
            raise RequestError(f"{path}, which another process has just finished", "an unfinished run directory", "")

    def release(self) -> None:
        """Let go of the lock; harmless when repeated."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
