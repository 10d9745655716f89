"""`run_manifest.json`: facts known at a run's end that no other file holds.

A `RunManifest` in memory answers for the other files as well: `manifest.seed` is read from `config/resolved.json`,
`manifest.final_loss` from the log of steps, and so on.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from workings.errors import RecordError
from workings.hardware.device import row_devices
from workings.record import jsonl, layout
from workings.record.canonical import read_json_object
from workings.record.digest import json_digest
from workings.record.values import Absent, Digest, absent, parsed_part

__all__ = ["Absent", "DeviceChecks", "Distribution", "RunManifest", "absent", "read_manifest"]

Commit = Annotated[str, Field(pattern=r"^[0-9a-f]{40}([0-9a-f]{24})?$")]
"""A git commit: 40 digits of SHA-1, or 64 in a repository whose object format is SHA-256."""
Time = Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$")]
"""A moment in UTC, ISO 8601 with a Z."""
DRAWN_FROM = "drawn_from"
"""Key in the metadata of a trace or pair that was sampled from a model: the digest of that model
(`workings.samples.selection`). In the manifest of a run that was trained on samples: their number by model."""
LEFT_ASIDE = "left_aside"
"""Fact of a run that trained the text part of a multimodal model: what else the whole model has."""
CONVERTED_FROM = "converted_from"
"""Fact of a run whose weights were converted from a GGUF file: its name, digest, quantization and licence."""
UNVERIFIED_MODEL = "unverified_model"
"""Note about a model without a verified family (`model.verified: false`)."""


class RunFiles(Protocol):
    """Files of a run by name. Reading raises `RecordError`."""

    def has(self, name: str) -> bool:
        """Whether there is a plain file of this name."""

    def json_object(self, name: str) -> dict[str, Any]:
        """A JSON object."""

    def lines(self, name: str) -> list[dict[str, Any]]:
        """Lines of a JSON-lines file; a torn last line is an error, too."""


@dataclass(frozen=True)
class RunFolder:
    """`RunFiles` of a folder, read each time."""

    path: Path
    bounded: bool = True
    """Refuse lines that would fill the memory, as those of someone else's run could."""

    def has(self, name: str) -> bool:
        return (self.path / name).is_file()

    def json_object(self, name: str) -> dict[str, Any]:
        return read_json_object(self.path / name)

    def lines(self, name: str) -> list[dict[str, Any]]:
        rows, torn = jsonl.read(self.path / name, bounded=self.bounded)
        if torn is not None:
            raise RecordError(f"{self.path / name}: torn last line in a sealed run")
        return rows


class _Part(BaseModel):
    # `model_id` and `model_revision` begin with a prefix that pydantic keeps for itself unless told otherwise.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True,
                              protected_namespaces=())


class Distribution(_Part):
    """An installed package."""

    name: str
    version: str


class DeviceChecks(BaseModel):
    """`env/device_checks.json`: the device that a run used, and how a kernel on it was checked."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True, use_attribute_docstrings=True)

    platform: str
    """`cpu`, `gpu` or `tpu`."""
    kind: str
    """The device's own name."""
    count: int = Field(ge=1)
    """Devices used, over all processes."""
    reason: str
    """Why this device."""
    mesh: dict[str, int]
    """Axis sizes; `replicate` if there are several copies of the parameters."""
    processes: int = 1
    """Processes that trained together."""


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True)


class _Training(_Strict):
    steps: int = Field(ge=1)


class _Batch(_Strict):
    micro_batch: int = Field(ge=1)
    accumulation: int = Field(ge=1)


class _RecipePart(_Strict):
    """The part of `config/resolved.json` that a manifest uses; the whole is `workings.config.recipe.Recipe`."""

    name: str
    seed: int = Field(ge=0)
    engine: str
    device: str
    batch: _Batch
    training: _Training


class _Digests(BaseModel):
    """`data/digests.json`."""

    digests: dict[str, Digest]


REASONS = {"complete": "all steps were taken", "interrupted": "asked to stop"}
"""Fixed reasons of a complete and an interrupted run; a failed run has its own."""


class RunManifest(_Part):
    """The contents of `run_manifest.json`. A value that does not exist is `Absent` and says why.

    The fields are the keys of the file. The properties after `to_json` read other files of the run: they need a
    manifest from `read_manifest` or `of`, and raise `RecordError` if such a file is missing or malformed.
    """

    schema_version: Literal["run/1"] = "run/1"
    """Form of this file."""
    name: str
    """Name of the run: its folder's name when it was made."""
    status: Literal["complete", "interrupted", "failed"]
    """Status at its end."""
    status_reason: str
    """Reason of its end, in words."""
    engine_distribution: Distribution
    """The installed package that brings the engine. Verification names it if it is not `workings`."""
    commit_sha: Commit | Absent
    """Commit of the working copy that the code ran from."""
    dirty_diff_digest: Digest | Absent
    """Digest of what differed from that commit; absent if nothing did, or if there was no working copy."""
    model_id: str
    """Hub id, folder name, or the shape's name for random weights."""
    model_revision: str | Absent
    """Commit on the Hub that the weights came from."""
    weight_digests: dict[str, Digest] | Absent
    """Digests of the weight files that training started from."""
    parameters: int = Field(ge=1)
    """Number of parameters."""
    actual_dtypes: dict[str, str]
    """Number formats that were used, gradients and accumulator included."""
    finished_at: Time
    """End of training."""
    facts: dict[str, Any] = {}  # pydantic copies the default for each manifest
    """Further facts of an engine or a caller."""

    _files: RunFiles = PrivateAttr()

    def of(self, files: RunFiles) -> "RunManifest":
        """The same manifest, whose properties read these files of its run."""
        manifest = self.model_copy()
        manifest._files = files
        return manifest

    def to_json(self) -> dict[str, Any]:
        """JSON values of the file."""
        return self.model_dump(mode="json")

    # From here on: values that are read from the run's other files.

    @property
    def config(self) -> dict[str, Any]:
        """The resolved recipe."""
        return self._files.json_object(layout.CONFIG)

    @cached_property
    def config_digest(self) -> str:
        """Digest of the resolved recipe."""
        return json_digest(self.config)

    @cached_property
    def _recipe_part(self) -> _RecipePart:
        return parsed_part(_RecipePart, self.config, layout.CONFIG)

    @property
    def recipe(self) -> str:
        """Name that the recipe gives itself."""
        return self._recipe_part.name

    @property
    def engine(self) -> str:
        """Name of the engine."""
        return self._recipe_part.engine

    @property
    def seed(self) -> int:
        """Seed of weights, order of rows and stochastic rounding."""
        return self._recipe_part.seed

    @property
    def requested_device(self) -> str:
        """Device that the recipe requests."""
        return self._recipe_part.device

    @property
    def planned_steps(self) -> int:
        """Updates asked for."""
        return self._recipe_part.training.steps

    @property
    def global_batch(self) -> int:
        """Rows per update: micro batch x accumulation x data-parallel devices."""
        batch = self._recipe_part.batch
        return batch.micro_batch * batch.accumulation * row_devices(self.device.mesh)

    @cached_property
    def data_digests(self) -> dict[str, str]:
        """Digests of what it was trained and measured with, by name: `traces`, `rows`, `tokenizer`, `items` etc."""
        digests = {"digests": self._files.json_object(layout.DATA_DIGESTS)}
        return parsed_part(_Digests, digests, layout.DATA_DIGESTS).digests

    @property
    def architecture(self) -> str:
        """Family of the model; empty if only the recorder wrote the run."""
        shape = self._files.json_object(layout.MODEL_SHAPE) if self._files.has(layout.MODEL_SHAPE) else {}
        return str(shape.get("family", ""))

    @property
    def workings_version(self) -> str:
        """Version of this package that ran it."""
        packages = self._files.json_object(layout.ENVIRONMENT).get("packages")
        return str(packages.get("workings")) if isinstance(packages, dict) else ""

    @cached_property
    def device(self) -> DeviceChecks:
        """Device that was used."""
        return parsed_part(DeviceChecks, self._files.json_object(layout.DEVICE_CHECKS), layout.DEVICE_CHECKS)

    @property
    def hardware(self) -> str:
        """The devices in words."""
        return f"{self.device.count} x {self.device.kind}"

    @cached_property
    def _log(self) -> dict[str, list[Any]]:
        """Key of the log -> its numbers in all completed steps, e.g. `{"loss": [2.1, 1.9], …}`."""
        lines, keys = self._files.lines(layout.METRICS), ("step", "loss", "tokens", "supervised_tokens", "seconds")
        for key in keys:
            for line in lines:
                value = line.get(key)
                # JSON's integers have no limit; a float has.
                if not isinstance(value, int | float) or abs(value) > 1e300:
                    raise RecordError(f"{layout.METRICS}: a line whose {key} is missing or is not a number")
        return {key: [line[key] for line in lines] for key in keys}

    @property
    def completed_steps(self) -> int:
        """Updates done."""
        return int(self._log["step"][-1]) if self._log["step"] else 0

    @property
    def final_loss(self) -> float | Absent:
        """Loss of the last completed step."""
        return float(self._log["loss"][-1]) if self._log["loss"] else absent("no step was completed")

    @property
    def tokens(self) -> int:
        """Positions without padding over all completed steps."""
        return sum(self._log["tokens"])

    @property
    def supervised_tokens(self) -> int:
        """Supervised tokens over all completed steps."""
        return sum(self._log["supervised_tokens"])

    @property
    def training_seconds(self) -> float:
        """Seconds spent in steps, over all attempts."""
        return sum(self._log["seconds"])

    @property
    def resumes(self) -> int:
        """Number of times that training was resumed."""
        return sum(row.get("kind") == "resumed" for row in self._files.lines(layout.EVENTS))

    @property
    def started_at(self) -> str:
        """Time of the event with which the first attempt started; empty without one."""
        events = self._files.lines(layout.EVENTS)
        return next((str(row.get("time")) for row in events if row.get("kind") == "started"), "")


def read_manifest(files: RunFiles) -> RunManifest:
    """The manifest of a run. Raises `RecordError` naming the keys that are wrong."""
    return parsed_part(RunManifest, files.json_object(layout.MANIFEST), layout.MANIFEST).of(files)
