"""The environment that a recipe names: shipped, of a library, or in a user's file."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workings.config.environment import EnvironmentConfig
from workings.environments.base import Environment
from workings.environments.openenv import OpenEnv
from workings.environments.reasoning_gym import ReasoningGym
from workings.environments.shipped import Calculator, FrozenLake, GuessNumber
from workings.environments.verifiers_taskset import VerifiersTaskset
from workings.errors import RequestError
from workings.record.digest import file_digest

SHIPPED: dict[str, tuple[Callable[..., Environment], str]] = {
    "calculator": (Calculator, "1"), "guess-number": (GuessNumber, "1"), "frozen-lake": (FrozenLake, "1")}
"""Name -> class, and version, which is raised whenever a reply changes."""
LIBRARIES: dict[str, type[ReasoningGym | VerifiersTaskset | OpenEnv]] = {
    "reasoning-gym": ReasoningGym, "verifiers": VerifiersTaskset, "openenv": OpenEnv}
"""Name before the colon -> adapter of a library."""


@dataclass(frozen=True, kw_only=True)
class EnvironmentSettings:
    """The environment of a recipe. Raises `RequestError` for an unknown name."""

    config: EnvironmentConfig
    base: Path = Path()
    """The recipe's folder, from which the path of a user's file starts."""

    def __post_init__(self) -> None:
        name = self.config.name
        if not self.config.file and name not in SHIPPED and name.partition(":")[0] not in LIBRARIES:
            raise RequestError(f"environment: {name} is unknown", f"one of {', '.join(SHIPPED)}, "
                               f"{', '.join(f'{library}:TASK' for library in LIBRARIES)}, or FILE.py:CLASS")

    @property
    def path(self) -> Path:
        """Path of a user's file."""
        return (self.base / Path(self.config.file).expanduser()).resolve()

    @property
    def name(self) -> str:
        """Its name in records, without the folder of a user's file."""
        return Path(self.config.name).name if self.config.file else self.config.name

    @property
    def version(self) -> str:
        """A version or a file's digest: with the options it decides the replies. Raises `RequestError`."""
        if self.config.file:
            if not self.path.is_file():
                raise RequestError(f"environment: {self.config.name} has no file {self.path}", "a Python file",
                                   "write the path as seen from the recipe's directory")
            return f"sha256:{file_digest(self.path)}"
        if self.config.name in SHIPPED:
            _, version = SHIPPED[self.config.name]
            return version
        library, _, task = self.config.name.partition(":")
        return LIBRARIES[library].version(task)

    def recorded(self) -> dict[str, Any]:
        """Name, version and options, as JSON values. Runs nothing. Raises `RequestError` for a missing file."""
        return {"name": self.name, "version": self.version, "options": dict(self.config.options),
                "turns": self.config.turns}

    def make(self) -> Environment:
        """A new environment, shipped or of a library. Raises `RequestError`, and ``TypeError`` for wrong options."""
        name, _, task = self.config.name.partition(":")
        options: dict[str, Any] = self.config.options
        if name in LIBRARIES:
            return LIBRARIES[name](task, **options)
        make, _ = SHIPPED[name]
        return make(**options)
