"""Parsed files of a run, read from its folder or from the record that is verified."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel, ValidationError

from workings.errors import RecordError
from workings.record import jsonl
from workings.record.canonical import read_json

_Model = TypeVar("_Model", bound=BaseModel)


class RunFiles(Protocol):
    """Files of a run by name."""

    def has(self, name: str) -> bool:
        """Whether there is a plain file of this name."""
        ...

    def json_object(self, name: str) -> dict[str, Any]:
        """A JSON object. Raises `RecordError`."""
        ...

    def lines(self, name: str) -> list[dict[str, Any]]:
        """Lines of a JSON-lines file. Raises `RecordError`."""
        ...


@dataclass(frozen=True)
class RunFolder:
    """Files in a run's folder, read each time."""

    path: Path

    def has(self, name: str) -> bool:
        """Whether there is a file of this name."""
        return (self.path / name).is_file()

    def json_object(self, name: str) -> dict[str, Any]:
        """A JSON object. Raises `RecordError`."""
        value = read_json(self.path / name)
        if not isinstance(value, dict):
            raise RecordError(f"{self.path / name}: not a JSON object")
        return value

    def lines(self, name: str) -> list[dict[str, Any]]:
        """Lines of a JSON-lines file. Raises `RecordError`, also for a torn last line."""
        rows, torn = jsonl.read(self.path / name, bounded=True)
        # Recovery cuts torn lines before sealing, so one in a sealed run means that the file was changed afterwards.
        if torn is not None:
            raise RecordError(f"{self.path / name}: torn last line in a sealed run")
        return rows


def parsed_part(model: type[_Model], value: dict[str, Any], name: str) -> _Model:
    """A JSON object as a model. Raises `RecordError` naming the file and the keys that are wrong."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        # The first five are enough to act on; a file of another kind would give an error for every key.
        wrong = "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors()[:5])
        raise RecordError(f"{name}: {wrong}") from None
