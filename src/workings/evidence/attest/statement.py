"""Signed statement: an in-toto statement with SLSA provenance over the root digests of a run and its units.

The statement follows from the record, so that a verifier can rebuild and compare it. Only the user who
trained vouches for it: the builder is named as self-hosted, with any machine.
"""

from collections.abc import Mapping
from typing import Any

from workings.record.manifest import RunManifest
from workings.record.values import Absent

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://slsa.dev/provenance/v1"
PAYLOAD_TYPE = "application/vnd.in-toto+json"
BUILD_TYPE = "urn:workings:train:1"
"""Version of the parameters below. A new form gets a new number."""
BUILDER = "urn:workings:self-hosted"
"""A run has no build service: it is made on the user's machine."""


def statement(manifest: RunManifest, roots: Mapping[str, str]) -> dict[str, Any]:
    """The statement about a run.

    Args:
        manifest: the run's manifest.
        roots: root digests by path in the run: `""` for the run itself, `eval/items`, …
    """
    subjects = [{"name": subject_name(manifest, path), "digest": {"sha256": root}}
                for path, root in sorted(roots.items())]
    return {"_type": STATEMENT_TYPE, "subject": subjects, "predicateType": PREDICATE_TYPE,
            "predicate": provenance(manifest, roots[""])}


def subject_name(manifest: RunManifest, path: str) -> str:
    """Name of a unit in the statement: the run's name, and the unit's path in it."""
    return f"{manifest.name}/{path}" if path else manifest.name


def provenance(manifest: RunManifest, root: str) -> dict[str, Any]:
    """SLSA provenance, version 1, of a run: the request, its inputs, software and time."""
    return {
        # The names are those of SLSA: what the caller decided is external, what followed on this machine internal.
        "buildDefinition": {
            "buildType": BUILD_TYPE,
            "externalParameters": {"recipe": manifest.recipe, "config": manifest.config},
            "internalParameters": {
                "engine": manifest.engine, "device": manifest.hardware, "platform": manifest.device.platform,
                "completed_steps": manifest.completed_steps, "status": manifest.status},
            "resolvedDependencies": _dependencies(manifest),
        },
        "runDetails": {
            "builder": {"id": BUILDER, "version": {
                "workings": manifest.workings_version,
                f"engine {manifest.engine_distribution.name}": manifest.engine_distribution.version}},
            # Two runs with one root digest would be equal byte for byte, so it tells runs apart.
            "metadata": {"invocationId": root, "startedOn": manifest.started_at, "finishedOn": manifest.finished_at},
        },
    }


def _dependencies(manifest: RunManifest) -> list[dict[str, Any]]:
    """Data, weights and code with digests; those without are left out."""
    dependencies: list[dict[str, Any]] = [{"name": f"data/{name}", "digest": {"sha256": digest}}
                                          for name, digest in sorted(manifest.data_digests.items())]
    if not isinstance(manifest.weight_digests, Absent):
        dependencies += [{"name": f"weights/{name}", "digest": {"sha256": digest}}
                         for name, digest in sorted(manifest.weight_digests.items())]
    if not isinstance(manifest.commit_sha, Absent):
        dependencies.append({"name": "code", "digest": {"gitCommit": manifest.commit_sha}})
    return dependencies
