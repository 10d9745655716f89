"""As far as one system can imitate another: this process without what only POSIX has.

Imported first by a child: `fcntl` and `resource` are not there, `os` lacks POSIX flags and calls, folders cannot be
opened, and `msvcrt` locks files as on Windows, where a lock belongs to the open file and closing it lets go.
"""

import builtins
import errno
import fcntl
import os
import stat
from types import ModuleType
from typing import Any

_flock, _open = fcntl.flock, os.open


def _locking(descriptor: int, mode: int, count: int) -> None:
    assert (mode, count) == (2, 1)
    try:
        _flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise OSError(errno.EACCES, "Permission denied") from None


def _no_folders(path: object, flags: int, mode: int = 0o777, **more: object) -> int:
    try:
        if stat.S_ISDIR(os.stat(path).st_mode):  # type: ignore[arg-type]  # noqa: PTH116
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
    except FileNotFoundError:
        pass
    return _open(path, flags, mode, **more)  # type: ignore[arg-type]


_import = builtins.__import__


def _refuse(name: str, scope: Any = None, *rest: Any, **more: Any) -> Any:
    ours = str((scope or {}).get("__name__", "")).startswith("workings")
    if ours and name in ("fcntl", "resource", "pwd", "grp", "termios"):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    if ours and name == "msvcrt":  # in `sys.modules` the standard library would take this for Windows
        return msvcrt
    return _import(name, scope, *rest, **more)


msvcrt = ModuleType("msvcrt")
msvcrt.LK_NBLCK, msvcrt.locking = 2, _locking  # type: ignore[attr-defined]
for name in ("O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK", "sched_getaffinity", "sysconf", "geteuid", "fork"):
    delattr(os, name)
os.open = _no_folders
builtins.__import__ = _refuse  # type: ignore[assignment]
