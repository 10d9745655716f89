"""`run_manifest.json`: request, actual execution and result of a run, in one page of JSON."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from workings.errors import RecordError
from workings.record.canonical import find_nulls, loads
from workings.record.layout import MANIFEST
from workings.record.values import Absent, Digest, Finite, absent

__all__ = ["Absent", "DeviceRecord", "Distribution", "Origin", "RunManifest", "absent", "parse_manifest"]

# 40 digits of SHA-1, or 64 in a repository whose object format is SHA-256.
Commit = Annotated[str, Field(pattern=r"^[0-9a-f]{40}([0-9a-f]{24})?$")]
"""A git commit."""
Time = Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$")]
"""A moment in UTC, ISO 8601 with a Z."""

DRAWN_FROM = "drawn_from"
"""Key in the metadata of a trace or pair that a model drew: the digest of that model (`workings.samples.candidates`).
In the manifest of a run that was trained on samples: how many are of which model."""
LEFT_ASIDE = "left_aside"
"""Fact of a run that trained the text part of a multimodal model: what the whole model has beside it."""
CONVERTED_FROM = "converted_from"
"""Fact of a run whose weights were converted from a GGUF file: its name, digest, quantization and licence."""
NOT_PROVEN = "not_proven"
"""Fact of a run whose model no family of this package stands for (`model.proven: false`): what that means."""
UNKNOWN_OUTSIDE_KAGGLE = Absent(absent="not run on Kaggle, or not known while it ran")


class _Part(BaseModel):
    # `model_id` and `model_revision` begin with a prefix that pydantic keeps for itself unless told otherwise.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True,
                              protected_namespaces=())


class Distribution(_Part):
    """An installed package."""

    name: str
    version: str


class DeviceRecord(_Part):
    """Device that a run actually used."""

    platform: str
    """`cpu`, `gpu` or `tpu`."""
    kind: str
    """The device's own name."""
    count: int = Field(ge=1)
    """Devices used, over all processes."""
    reason: str
    """Why this device."""


class Origin(_Part):
    """A sealed run that another one goes on from."""

    name: str
    """Name of its folder, beside the new one."""
    root: Digest
    """Root digest of the sealed run."""


REASONS = {"complete": "all steps were taken", "interrupted": "asked to stop"}
"""The reasons of the two ends that have only one; a failed run has its own."""


class RunManifest(_Part):
    """The contents of `run_manifest.json`. A value that does not exist is `Absent` and says why."""

    schema_version: Literal["run/1"] = "run/1"
    """Form of this file."""
    name: str
    """Name of the run: its folder's name when it was made."""
    recipe: str
    """Name that the recipe gives itself."""
    status: Literal["complete", "interrupted", "failed"]
    """Status at its end."""
    status_reason: str
    """Reason of its end, in words."""

    workings_version: str
    """Version of this package that ran it."""
    engine: str
    """Name of the engine."""
    engine_distribution: Distribution
    """The installed package that brings the engine. Any other than `workings` is named by verification."""
    commit_sha: Commit | Absent
    """Commit of the working copy that the code ran from."""
    dirty_diff_digest: Digest | Absent
    """Digest of what differed from that commit; absent if nothing did, or if there was no working copy."""

    seed: int = Field(ge=0)
    """Seed of weights, order of rows and stochastic rounding."""
    config_digest: Digest
    """`json_digest` of the resolved recipe: of `config_snapshot` and of `config/resolved.json`."""
    config_snapshot: dict[str, Any]
    """The resolved recipe."""
    data_digests: dict[str, Digest]
    """Digests of what it was trained and measured with, by name: `traces`, `rows`, `tokenizer`, `items`, …"""
    model_id: str
    """Hub id, folder name, or the shape's name for random weights."""
    model_revision: str | Absent
    """Commit on the Hub that the weights came from."""
    weight_digests: dict[str, Digest] | Absent
    """Digests of the weight files that training started from."""
    architecture: str
    """Family of the model."""
    parameters: int = Field(ge=1)
    """Number of parameters."""

    requested_device: str
    """Device that the recipe requests."""
    actual_device: DeviceRecord
    """Device that was used."""
    requested_dtypes: dict[str, str]
    """Number formats asked for: `parameters`, `compute`, `moments`."""
    actual_dtypes: dict[str, str]
    """Number formats that were used, gradients and accumulator included."""
    mesh: dict[str, int]
    """Axis sizes."""
    global_batch: int = Field(ge=1)
    """Rows per update: micro batch x accumulation x data-parallel devices."""
    memory_limit_bytes: int = Field(ge=0)
    """Bytes one device offers."""
    memory_limit_source: str
    """Source of this number."""
    measured_peak_bytes: int | Absent
    """Peak bytes per device."""
    measured_peak_source: str | Absent
    """Source of this number."""
    hardware: str
    """The machine in words."""
    vram: int | Absent
    """Memory of one accelerator, in bytes."""

    planned_steps: int = Field(ge=1)
    """Updates asked for."""
    completed_steps: int = Field(ge=0)
    """Updates done."""
    training_steps: int = Field(ge=0)
    """The same number as `completed_steps`, under the name that other tools look for."""
    first_loss: Finite | Absent
    """Loss of the first step, in nats per supervised token."""
    final_loss: Finite | Absent
    """Loss of the last completed step."""
    supervised_tokens: int = Field(ge=0)
    """Supervised tokens over all completed steps."""
    tokens: int = Field(ge=0)
    """Tokens that are not padding over all completed steps."""
    resumes: int = Field(default=0, ge=0)
    """Number of times that training was resumed."""
    resumed_from: Origin | Absent = absent("not a continuation of a sealed run")
    """The sealed, interrupted run that this one goes on from."""
    started_at: Time
    """Start of the first attempt."""
    finished_at: Time
    """End of training."""
    training_seconds: Finite
    """Seconds spent in steps, over all attempts."""

    kaggle_notebook_url: str | Absent = UNKNOWN_OUTSIDE_KAGGLE
    """Address of the notebook that ran it."""
    kaggle_notebook_version: str | Absent = UNKNOWN_OUTSIDE_KAGGLE
    """Version of that notebook."""
    kaggle_run_id: str | Absent = UNKNOWN_OUTSIDE_KAGGLE
    """Kaggle's id of that run."""

    # Not shared between manifests, as a default of a function would be: pydantic copies it for each.
    facts: dict[str, Any] = {}
    """Further facts of an engine or a caller."""

    def to_json(self) -> dict[str, Any]:
        """JSON values of the manifest. Raises `RecordError` if one of the free parts holds a null."""
        value: dict[str, Any] = self.model_dump(mode="json")
        # A null would leave open whether a value is unknown or was forgotten; an absent one says why.
        if nulls := find_nulls(value):
            raise RecordError(f"{MANIFEST}: null at {', '.join(nulls[:5])}")
        return value


def parse_manifest(data: bytes) -> RunManifest:
    """Read `run_manifest.json`. Raises `RecordError` naming the keys that are wrong."""
    value = loads(data)
    try:
        return RunManifest.model_validate(value)
    except ValidationError as error:
        # The first five are enough to act on; a file of another kind would give an error for every key.
        wrong = "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors()[:5])
        raise RecordError(f"{MANIFEST}: {wrong}") from None
