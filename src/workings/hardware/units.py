"""Bytes as people read them."""

BYTE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
"""Each is 1024 times the one before."""


def gib(count: int) -> str:
    """Memory of a device or a host: GiB with two decimals from one GiB on, MiB below."""
    return f"{count / 2**30:.2f} GiB" if count >= 2**30 else f"{count / 2**20:.1f} MiB"


def byte_text(size: float) -> str:
    """Bytes of any number, in the largest unit of which there is one: ``512 B``, ``1.5 KiB``."""
    unit = 0
    while size >= 1024 and unit < len(BYTE_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size:.0f} {BYTE_UNITS[unit]}" if unit == 0 else f"{size:.1f} {BYTE_UNITS[unit]}"
