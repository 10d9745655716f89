"""Memory from malloc in huge pages, for the verbs that compute.

XLA takes the memory of a step's temporaries from malloc and gives it back, every step. In pages of 4 KiB the kernel is
entered for each of them again. Linux has pages of 2 MiB for those who ask (`madvise`), and glibc asks where the
variable ``GLIBC_TUNABLES`` said so when the process began. So the command begins anew, once, with that variable
(docs/decisions/0013-huge-pages.md). Nothing is resident that was not before, and no number changes.
"""

import os
import platform
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

VERBS = ("train", "quickstart", "eval", "parity", "replay")
"""What computes for longer than a restart takes."""
VARIABLE, TUNABLE = "GLIBC_TUNABLES", "glibc.malloc.hugetlb"
SINCE = (2, 35)
"""The glibc that knows the tunable; older ones ignore it."""
PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def with_huge_pages(environment: Mapping[str, str], pages: Path = PAGES) -> dict[str, str]:
    """The variable that asks for huge pages, beside tunables that are set already.

    Empty where it would change nothing (another system, pages that are huge always or never) or the person decided.
    """
    library, number = platform.libc_ver()
    tunables = environment.get(VARIABLE, "")
    if library != "glibc" or tuple(int(part) for part in number.split(".")) < SINCE or TUNABLE in tunables:
        return {}
    try:
        offered = pages.read_text(encoding="ascii")
    except OSError:  # a kernel without huge pages
        return {}
    if "[madvise]" not in offered:
        return {}
    return {VARIABLE: ":".join(filter(None, (tunables, f"{TUNABLE}=1")))}


def restart_with_huge_pages(words: Sequence[str]) -> None:
    """Start this command again with huge pages, if it computes and they are to be had; the process stays the same one.

    Args:
        words: what was typed after the program's name.
    """
    added = with_huge_pages(os.environ) if words and words[0] in VERBS else {}
    if added:
        with suppress(OSError):  # a place that allows no restart: slower, and nothing else
            os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], os.environ | added)  # noqa: S606 - ourselves
