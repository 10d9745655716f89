"""What a verification says."""

from pathlib import Path

from workings.evidence.verify import verify


def failed(path: Path, **options: object) -> set[str]:
    """The checks that failed."""
    return {check.id for check in verify(path, **options).checks if check.verdict == "failed"}
