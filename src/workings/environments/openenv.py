"""Environments of the library `openenv` (0.10): an installed class in this process, or a running server.

An episode on a server is a session of its WebSocket; its address `/reset` would make a new environment each time.
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import cache
from importlib import import_module
from inspect import Parameter, signature
from typing import Any, get_type_hints
from urllib.request import urlopen

from workings.environments.base import Row, Step, installed, source_of
from workings.errors import RequestError
from workings.hints import pip_install


class OpenEnv:
    """One episode. The model's text is the value of a field of an action, or a whole action as JSON."""

    def __init__(self, path: str, *, url: str = "", action: str = "", show: str = "", **reset: Any) -> None:
        """Open an environment by the path of a class or the ``url`` of a server; ``reset`` are arguments of resets.

        ``action`` is the field that the model's text is the value of, ``show`` the fields of an observation that the
        model sees, separated by commas. Raises `RequestError` if the class, the server or the field does not exist.
        """
        if bool(path) == bool(url):
            raise RequestError("environment: openenv needs a class or the address of a server, and not both",
                               "openenv:PACKAGE.MODULE.CLASS, or openenv with options.url")
        self._reset = reset
        self._show = [name.strip() for name in show.split(",") if name.strip()]
        self._session = _Installed(path) if path else _Server(url.rstrip("/"))
        fields = {name: field for name, field in self._session.schema["properties"].items() if name != "metadata"}
        if action and action not in fields:
            raise RequestError(f"environment: an action of openenv has no field {action}",
                               f"options.action is one of {', '.join(fields)}")
        self._field = action
        if not action and len(fields) == 1:
            [(name, field)] = fields.items()
            # The only field needs no JSON around it, unless its own value is JSON.
            if field.get("type") not in ("array", "object"):
                self._field = name

    @staticmethod
    def version(path: str) -> str:
        """Version of the library and digest of the package's source, which decide the replies."""
        return f"{installed('openenv')}, {source_of(path.partition('.')[0])}" if path else "that of its server"

    def tasks(self, seed: int, count: int) -> Iterator[dict[str, Any]]:
        """Rows with different ids, from which the seeds of their episodes follow."""
        return ({"id": f"openenv-{number:06d}"} for number in range(count))

    def reset(self, seed: int, row: Row) -> str:
        """The first observation; a row may have further arguments in ``reset``, such as the index of a task."""
        return self._text(self._session.reset({"seed": seed, **self._reset, **row.get("reset", {})}))

    def step(self, text: str) -> Step:
        """The reply to an action; a text that is no valid action ends the episode with reward 0."""
        action: Any = None
        if self._field:
            action = {self._field: text.strip()}
        else:
            with suppress(ValueError, RecursionError):
                action = json.loads(text)
        answer = self._session.step(action) if isinstance(action, dict) else None
        if answer is None:
            return Step("", 0.0, done=True)
        return Step(self._text(answer), float(answer["reward"] or 0.0), bool(answer["done"]))

    def close(self) -> None:
        """End the episode."""
        self._session.close()

    def _text(self, answer: dict[str, Any]) -> str:
        seen = answer["observation"]
        names = self._show or [name for name, value in seen.items() if name != "metadata" and value is not None]
        texts = {}
        for name in names:
            if name not in seen:
                raise LookupError(f"an observation has no {name} (options.show), but {', '.join(seen)}")
            texts[name] = seen[name] if isinstance(seen[name], str) else json.dumps(seen[name])
        if len(texts) == 1:
            return str(texts[names[0]])
        return "\n".join(f"{name}: {text}" for name, text in texts.items())


class _Installed:
    """An environment in this process, which answers as its server would."""

    def __init__(self, path: str) -> None:
        module, _, name = path.rpartition(".")
        try:
            from openenv.core.env_server.interfaces import Environment
            found = getattr(import_module(module), name)
            # Call nothing else: a verifier takes the path from a record.
            if not issubclass(found, Environment):
                raise TypeError(f"{name} does not derive from openenv's Environment")
            self._environment, self._action_type = found(), get_type_hints(found.step)["action"]
        except (ImportError, AttributeError, KeyError, TypeError, ValueError) as error:
            raise RequestError(
                f"environment openenv:{path} cannot be made: {error}", "the library openenv, and a class of it that is "
                "installed, whose step has a typed action") from None
        self.schema = self._action_type.model_json_schema()
        self.close = self._environment.close

    def reset(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The first reply; arguments that the environment does not take are left out."""
        parameters = signature(self._environment.reset).parameters
        if not any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters.values()):
            arguments = {name: value for name, value in arguments.items() if name in parameters}
        return self._reply(self._environment.reset(**arguments))

    def step(self, action: dict[str, Any]) -> dict[str, Any] | None:
        """The reply to an action; None if it is invalid."""
        from openenv.core.env_server.serialization import deserialize_action
        try:
            typed_action = deserialize_action(action, self._action_type)
        except ValueError:
            return None
        return self._reply(self._environment.step(typed_action))

    def _reply(self, observation: Any) -> dict[str, Any]:
        from openenv.core.env_server import serialization, types
        data = serialization.serialize_observation(observation)
        return dict(types.WSObservationResponse(data=data).model_dump(mode="json")["data"])


class _Server:
    """A session on a server; it begins with the first reset."""

    def __init__(self, url: str) -> None:
        self._address, self.schema = f"ws{url.removeprefix('http')}/ws", _action_schema(url)
        self._session = ExitStack()
        self.close = self._session.close

    def reset(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The first reply."""
        from websockets.sync.client import connect
        self._socket = self._session.enter_context(connect(self._address, open_timeout=60, max_size=None))
        return self._data(self._ask("reset", arguments))

    def step(self, action: dict[str, Any]) -> dict[str, Any] | None:
        """The reply to an action; None if it is invalid."""
        answer = self._ask("step", action)
        is_invalid = answer["type"] == "error" and answer["data"]["code"] == "VALIDATION_ERROR"
        return None if is_invalid else self._data(answer)

    def _ask(self, kind: str, data: dict[str, Any]) -> dict[str, Any]:
        from websockets.exceptions import ConnectionClosed
        with suppress(ConnectionClosed):  # a server without a free session has sent an error and closed
            self._socket.send(json.dumps({"type": kind, "data": data}))
        return dict(json.loads(self._socket.recv()))

    def _data(self, answer: dict[str, Any]) -> dict[str, Any]:
        if answer["type"] == "error":
            raise RuntimeError(f"its server says {answer['data']['code']}: {answer['data']['message']}")
        return dict(answer["data"])


@cache
def _action_schema(url: str) -> dict[str, Any]:
    """The JSON schema of a server's actions. Raises `RequestError` if the server does not answer."""
    try:
        import_module("websockets.sync.client")
        with urlopen(f"{url}/schema", timeout=60) as reply:  # noqa: S310 - the address is the recipe's own
            return dict(json.load(reply)["action"])
    except (ImportError, OSError, ValueError, KeyError) as error:
        raise RequestError(
            f"environment: openenv cannot ask the server {url}: {error}", "the library websockets, and the address of "
            "a running server, such as http://127.0.0.1:8000", pip_install("websockets", extra=False)) from None
