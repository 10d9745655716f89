"""`run_manifest.json`: request, actual execution and result of a run, in one page of JSON."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from workings.errors import RecordError
from workings.record.canonical import find_nulls, loads
from workings.record.coverage import ALIKE, CLOCK, CODE, Checked, record_file, unsaid
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
UNVERIFIED_MODEL = "unverified_model"
"""Fact of a run whose model no family of this package stands for (`model.verified: false`): what that means."""
UNKNOWN_OUTSIDE_KAGGLE = Absent(absent="not run on Kaggle, or not known while it ran")


class _Part(BaseModel):
    # `model_id` and `model_revision` begin with a prefix that pydantic keeps for itself unless told otherwise.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True,
                              protected_namespaces=())


class Distribution(_Part):
    """An installed package."""

    name: Annotated[str, Checked("consistency.engine", "this package; of another one there is only its word")]
    version: Annotated[
        str,
        Checked("consistency.engine", "this package's version; of another package only its word", partly=True),
    ]


class DeviceRecord(_Part):
    """Device that a run actually used."""

    platform: Annotated[str, Checked("consistency.device", "the device that was checked")]
    """`cpu`, `gpu` or `tpu`."""
    kind: Annotated[str, Checked("consistency.device", "the device that was checked" + ALIKE, partly=True)]
    """The device's own name."""
    count: Annotated[int, Checked("consistency.device", "the device that was checked")] = Field(ge=1)
    """Devices used, over all processes."""
    reason: Annotated[str, Checked("consistency.views", "the README" + ALIKE, partly=True)]
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

    schema_version: Annotated[Literal["run/1"], Checked("form.schema", "the forms that there are")] = "run/1"
    """Form of this file."""
    name: Annotated[str, Checked("consistency.attempts", "the list of attempts beside the run")]
    """Name of the run: its folder's name when it was made."""
    recipe: Annotated[str, Checked("consistency.config", "the recipe" + ALIKE, partly=True)]
    """Name that the recipe gives itself."""
    status: Annotated[
        Literal["complete", "interrupted", "failed"],
        Checked("consistency.status", "the seal, the recipe, the log"),
    ]
    """Status at its end."""
    status_reason: Annotated[
        str,
        Checked("consistency.status", "the events; an interruption has only one", partly=True),
    ]
    """Reason of its end, in words."""

    workings_version: Annotated[
        str,
        Checked("consistency.machine", "the packages of the environment" + ALIKE, partly=True),
    ]
    """Version of this package that ran it."""
    engine: Annotated[str, Checked("consistency.config", "the recipe")]
    """Name of the engine."""
    engine_distribution: Distribution
    """The installed package that brings the engine. Any other than `workings` is named by verification."""
    commit_sha: Annotated[Commit | Absent, unsaid(CODE)]
    """Commit of the working copy that the code ran from."""
    dirty_diff_digest: Annotated[Digest | Absent, unsaid(CODE)]
    """Digest of what differed from that commit; absent if nothing did, or if there was no working copy."""

    seed: Annotated[int, Checked("consistency.config", "the recipe")] = Field(ge=0)
    """Seed of weights, order of rows and stochastic rounding."""
    config_digest: Annotated[Digest, Checked("consistency.config", "the resolved recipe, and its digest")]
    """`json_digest` of the resolved recipe: of `config_snapshot` and of `config/resolved.json`."""
    config_snapshot: Annotated[
        dict[str, Any],
        Checked("consistency.config", "the resolved recipe, and its digest", keys="*"),
    ]
    """The resolved recipe."""
    data_digests: Annotated[
        dict[str, Digest],
        Checked("consistency.rows", "the row index", keys="rows", only_with_file="data/rows.jsonl"),
        Checked("consistency.tokenizer", "the tokenizer's files", keys="tokenizer"),
        Checked("consistency.prompts", "the prompts", keys="prompts", only_with_file="data/prompts.jsonl"),
        Checked("consistency.prompts",
                "what decides the rewards", keys="rewards", only_with_file="config/rewards.json"),
        Checked("consistency.teacher", "the teacher's facts", keys="teacher", only_with_file="config/teacher.json"),
        Checked("consistency.rows", "their copy; the files themselves are not in a record", keys="*", partly=True),
    ]
    """Digests of what it was trained and measured with, by name: `traces`, `rows`, `tokenizer`, `items`, …"""
    model_id: Annotated[
        str,
        Checked("consistency.model", "the recipe; whose weights they were only their digests say", partly=True),
    ]
    """Hub id, folder name, or the shape's name for random weights."""
    model_revision: Annotated[
        str | Absent,
        unsaid("weights that it began with are not in a record; a replay takes them by these digests"),
    ]
    """Commit on the Hub that the weights came from."""
    weight_digests: Annotated[
        dict[str, Digest] | Absent,
        unsaid("weights that it began with are not in a record; a replay takes them by these digests", ". *"),
    ]
    """Digests of the weight files that training started from."""
    architecture: Annotated[str, Checked("consistency.model", "the model's shape")]
    """Family of the model."""
    parameters: Annotated[int, Checked("consistency.model", "the model's shape")] = Field(ge=1)
    """Number of parameters."""

    requested_device: Annotated[str, Checked("consistency.config", "the recipe" + ALIKE, partly=True)]
    """Device that the recipe requests."""
    actual_device: DeviceRecord
    """Device that was used."""
    requested_dtypes: Annotated[
        dict[str, str],
        Checked("consistency.model", "the recipe", keys="parameters compute moments *"),
    ]
    """Number formats asked for: `parameters`, `compute`, `moments`."""
    actual_dtypes: Annotated[
        dict[str, str],
        Checked("consistency.model",
                "the recipe; of an engine from elsewhere only its word", keys="compute", partly=True),
        Checked("consistency.tensors",
                "the tensors of the checkpoints", keys="parameters moments gradients accumulator *"),
    ]
    """Number formats that were used, gradients and accumulator included."""
    mesh: Annotated[dict[str, int], Checked("consistency.machine", "the number of devices, the plan", keys="*")]
    """Axis sizes."""
    global_batch: Annotated[int, Checked("consistency.order", "rows, accumulation and devices")] = Field(ge=1)
    """Rows per update: micro batch x accumulation x data-parallel devices."""
    memory_limit_bytes: Annotated[
        int,
        Checked("consistency.machine", "plan and measurement" + ALIKE, partly=True),
    ] = Field(ge=0)
    """Bytes one device offers."""
    memory_limit_source: Annotated[str, Checked("consistency.plan", "the plan's reasons" + ALIKE, partly=True)]
    """Source of this number."""
    measured_peak_bytes: Annotated[
        int | Absent,
        Checked("consistency.plan", "the measurement beside the plan, where there is one; the log", partly=True),
    ]
    """Peak bytes per device."""
    measured_peak_source: Annotated[str | Absent, Checked("consistency.machine", "measurement and log")]
    """Source of this number."""
    hardware: Annotated[str, Checked("consistency.machine", "the device" + ALIKE, partly=True)]
    """The machine in words."""
    vram: Annotated[int | Absent, Checked("consistency.device", "a CPU has none")]
    """Memory of one accelerator, in bytes."""

    planned_steps: Annotated[int, Checked("consistency.config", "the recipe")] = Field(ge=1)
    """Updates asked for."""
    completed_steps: Annotated[int, Checked("consistency.status", "the seal, the recipe, the log")] = Field(ge=0)
    """Updates done."""
    training_steps: Annotated[int, Checked("consistency.status", "the seal, the recipe, the log")] = Field(ge=0)
    """The same number as `completed_steps`, under the name that other tools look for."""
    first_loss: Annotated[Finite | Absent, Checked("consistency.losses", "the log")]
    """Loss of the first step, in nats per supervised token."""
    final_loss: Annotated[Finite | Absent, Checked("consistency.losses", "the log")]
    """Loss of the last completed step."""
    supervised_tokens: Annotated[int, Checked("consistency.losses", "the log")] = Field(ge=0)
    """Supervised tokens over all completed steps."""
    tokens: Annotated[int, Checked("consistency.losses", "the log")] = Field(ge=0)
    """Tokens that are not padding over all completed steps."""
    resumes: Annotated[int, Checked("consistency.steps", "the events")] = Field(default=0, ge=0)
    """Number of times that training was resumed."""
    resumed_from: Annotated[
        Origin | Absent,
        unsaid("the run that it goes on from is another record", ". *"),
    ] = absent("not a continuation of a sealed run")
    """The sealed, interrupted run that this one goes on from."""
    started_at: Annotated[Time, Checked("consistency.time_and_memory", CLOCK, partly=True)]
    """Start of the first attempt."""
    finished_at: Annotated[Time, Checked("consistency.time_and_memory", CLOCK, partly=True)]
    """End of training."""
    training_seconds: Annotated[
        Finite,
        Checked("consistency.time_and_memory",
                "the log adds up; it is at most the time between start and end", partly=True),
    ]
    """Seconds spent in steps, over all attempts."""

    kaggle_notebook_url: Annotated[str | Absent, unsaid("what a notebook says of itself")] = UNKNOWN_OUTSIDE_KAGGLE
    """Address of the notebook that ran it."""
    kaggle_notebook_version: Annotated[str | Absent, unsaid("what a notebook says of itself")] = UNKNOWN_OUTSIDE_KAGGLE
    """Version of that notebook."""
    kaggle_run_id: Annotated[str | Absent, unsaid("what a notebook says of itself")] = UNKNOWN_OUTSIDE_KAGGLE
    """Kaggle's id of that run."""

    # Not shared between manifests, as a default of a function would be: pydantic copies it for each.
    facts: Annotated[
        dict[str, Any],
        Checked("consistency.plan", "the plan", keys="forced predicted_peak_bytes"),
        Checked("consistency.tokens",
                "the row index", keys="padding_share_of_first_epoch", only_with_file="data/rows.jsonl"),
        Checked("consistency.rows", "the row index, whole", keys="row_index", only_with_file="data/rows.jsonl"),
        Checked("consistency.recipe",
                "a run that is said to be no smoke run gives its recipe again", keys="smoke", partly=True),
        Checked("consistency.drawn_from", "the samples that it names", keys="drawn_from.*"),
        Checked("consistency.facts", "what the checks of the devices say", keys="processes"),
        Checked("consistency.pairs", "the row index", keys="pairs"),
        Checked("consistency.facts", "computed again from the metrics", keys="preferences.*"),
        Checked("consistency.facts", "computed again from metrics, events and recipe", keys="held_out.*"),
        unsaid(CODE, "*"),
    ] = {}
    """Further facts of an engine or a caller."""

    def to_json(self) -> dict[str, Any]:
        """JSON values of the manifest. Raises `RecordError` if one of the free parts holds a null."""
        value: dict[str, Any] = self.model_dump(mode="json")
        # A null would leave open whether a value is unknown or was forgotten; an absent one says why.
        if nulls := find_nulls(value):
            raise RecordError(f"{MANIFEST}: null at {', '.join(nulls[:5])}")
        return value


record_file("run", MANIFEST, model=RunManifest)


def parse_manifest(data: bytes) -> RunManifest:
    """Read `run_manifest.json`. Raises `RecordError` naming the keys that are wrong."""
    value = loads(data)
    try:
        return RunManifest.model_validate(value)
    except ValidationError as error:
        # The first five are enough to act on; a file of another kind would give an error for every key.
        wrong = "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors()[:5])
        raise RecordError(f"{MANIFEST}: {wrong}") from None
