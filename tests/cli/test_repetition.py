"""A repetition is counted; a number with many zeros is shown as it is."""

import pytest

from workings.repetition import FoldedStream, counted


def test_repetitions_of_one_line_are_counted() -> None:
    assert counted(r"'\n\n\n\n\n'") == r"'\n x5 '"
    assert counted("1000 + 2000") == "1000 + 2000"
    assert counted("no no no no no ") == "no  x5 "


def written(text: str, size: int) -> str:
    """What is shown of a text that comes in pieces of this size."""
    shown: list[str] = []
    stream = FoldedStream(shown.append)
    for start in range(0, len(text), size):
        stream.add(text[start:start + size])
    stream.end()
    return "".join(shown)


@pytest.mark.parametrize("size", [1, 3, 11, 1000])
def test_a_long_repetition_is_counted_while_it_is_written(size: int) -> None:
    for plain in ("1 + 1 = 2, and 10000000000 is a number", "", "a" * 70, "x = 4\n\n\n\nfour"):
        assert written(plain, size) == plain
    if size == 1000:  # one piece is shown whole
        return
    told = written("So <reasoning>" + "<reasoning>" * 255 + " 12 is it", size)
    assert told.startswith("So <reasoning><reasoning>")
    assert " times more … " in told
    assert told.endswith(" 12 is it")
    assert len(told) < 220
