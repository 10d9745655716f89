"""Opening files and folders where operating systems differ: POSIX has flags that Windows lacks, and opens folders."""

import os

PRIVATE = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
"""Not inherited by children (on Windows nothing is), and bytes as they are."""
PLAIN_ONLY = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""No link is followed, and no pipe is waited for."""
FOLDERS = hasattr(os, "O_DIRECTORY")
"""Whether a folder can be opened: to be locked, and to wait until its names are on the disk."""
SYNCABLE = os.O_RDONLY if FOLDERS else os.O_RDWR
"""How a file is opened whose bytes shall reach the disk; Windows wants to be able to write."""
