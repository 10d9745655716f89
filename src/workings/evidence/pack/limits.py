"""Limits of places of publication, with their sources."""

from dataclasses import dataclass

from workings.errors import RequestError


@dataclass(frozen=True, kw_only=True)
class Limit:
    """A place's limits; 0 without one."""

    words: int = 0
    """Words of the write-up."""
    bytes: int = 0
    """Bytes of the zip."""
    source: str


LIMITS = {
    "kaggle-writeup": Limit(words=1500, source=(
        "overview pages of Kaggle's hackathons: a write-up should not exceed 1,500 words, longer ones may be "
        "penalized")),
    "kaggle-output": Limit(bytes=20 * 10**9, source=(
        "Kaggle's notebook documentation: 20 GB of disk space that is saved (/kaggle/working)")),
}


def check_words(limit: str, words: int | None) -> None:
    """Refuse a write-up that is too long, or none where the limit is about one. Raises `RequestError`."""
    bounds = _limit(limit)
    if not bounds.words:
        return
    # Without a write-up the limit could not be checked.
    if words is None:
        raise RequestError(f"--limit {limit} and no write-up", "the text that the limit is about", "--writeup FILE.md")
    if words > bounds.words:
        raise RequestError(f"a write-up of {words:,} words", f"at most {bounds.words:,} ({bounds.source})",
                           f"shorten it by {words - bounds.words:,} words")


def check_bytes(limit: str, size: int) -> None:
    """Refuse a pack that is too large. Raises `RequestError`."""
    bounds = _limit(limit)
    # The finished zip is measured: how far texts shrink is not known before.
    if bounds.bytes and size > bounds.bytes:
        raise RequestError(f"a pack of {size:,} bytes", f"at most {bounds.bytes:,} ({bounds.source})",
                           "--weights digest, which names checkpoints by their digests")


def _limit(name: str) -> Limit:
    if name not in LIMITS:
        raise RequestError(f"--limit {name}", " or ".join(LIMITS), f"--limit {next(iter(LIMITS))}")
    return LIMITS[name]
