"""What a verification says."""

from pathlib import Path

from workings.evidence.verify import verify


def failed(path: Path, **options: object) -> set[str]:
    """The checks that failed."""
    return set(failures(path, **options))


def failures(path: Path, **options: object) -> dict[str, str]:
    """The checks that failed, and their texts."""
    return {check.id: check.text for check in verify(path, **options).checks if check.verdict == "failed"}


def said(path: Path, **options: object) -> dict[str, tuple[str, str]]:
    """Verdict and text of every check."""
    return {check.id: (str(check.verdict), check.text) for check in verify(path, **options).checks}
