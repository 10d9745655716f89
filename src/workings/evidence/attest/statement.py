"""Signed statement: an in-toto statement over the root digests of a run and its units.

The roots cover every fact of the record, so the statement repeats none. A verifier can rebuild and compare it. Only the
user who trained vouches for it.
"""

from collections.abc import Mapping
from typing import Any

from workings.record.manifest import RunManifest

PAYLOAD_TYPE = "application/vnd.in-toto+json"
FORM = {"_type": "https://in-toto.io/Statement/v1", "predicateType": "urn:workings:record:1",
        "predicate": {"subjects": "root digests of sealed units"}}
"""Everything in a statement but its subjects. A new form gets a new number."""


def statement(manifest: RunManifest, roots: Mapping[str, str]) -> dict[str, Any]:
    """The statement about a run.

    Args:
        manifest: the run's manifest.
        roots: root digests by path in the run: `""` for the run itself, `eval/items`, …
    """
    return {**FORM, "subject": [{"name": subject_name(manifest, path), "digest": {"sha256": root}}
                                for path, root in sorted(roots.items())]}


def subject_name(manifest: RunManifest, path: str) -> str:
    """Name of a unit in the statement: the run's name, and the unit's path in it."""
    return f"{manifest.name}/{path}" if path else manifest.name
