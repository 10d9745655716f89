"""Bytes as people read them."""

from workings.hardware.memory import byte_text, gib


def test_memory_in_gib_or_mib() -> None:
    assert gib(2**30) == "1.00 GiB"
    assert gib(2**30 - 1) == "1024.0 MiB"
    assert gib(0) == "0.0 MiB"


def test_bytes_in_the_largest_unit() -> None:
    assert [byte_text(size) for size in (0, 1023, 1536, 2**20, 2**40, 2**60)] == [
        "0 B", "1023 B", "1.5 KiB", "1.0 MiB", "1.0 TiB", "1048576.0 TiB"]
