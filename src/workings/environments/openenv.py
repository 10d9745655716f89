"""Environments of the library `openenv` (0.10): an installed class, played in this process, or a running server.

An episode on a server is a session of its WebSocket: `/reset` and `/step` make a new environment for every request.
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
    """One episode of an environment; the model's text is the value of an action's field, or the action as JSON."""

    def __init__(self, path: str, *, url: str = "", action: str = "", show: str = "", **reset: Any) -> None:
        """The path of a class or the address of a server, and further arguments of a reset.

        `action` is the field that a text is the value of, `show` the fields of an observation that the model is shown,
        separated by commas. Raises `RequestError` for a class, a server or a field that does not exist.
        """
        if bool(path) == bool(url):
            raise RequestError("environment: openenv needs a class or the address of a server, and not both",
                               "openenv:PACKAGE.MODULE.CLASS, or openenv with options.url")
        self._reset, self._show = reset, [name.strip() for name in show.split(",") if name.strip()]
        self._session = _Installed(path) if path else _Server(url.rstrip("/"))
        fields = {name: field for name, field in self._session.schema["properties"].items() if name != "metadata"}
        if action and action not in fields:
            raise RequestError(f"environment: an action of openenv has no field {action}",
                               f"options.action is one of {', '.join(fields)}")
        texts = [name for name, field in fields.items() if field.get("type") not in ("array", "object")]
        self._field = action or (texts[0] if len(texts) == len(fields) == 1 else "")

    @staticmethod
    def version(path: str) -> str:
        """What decides the replies: the library's version and the digest of the package's source."""
        return f"{installed('openenv')}, {source_of(path.partition('.')[0])}" if path else "that of its server"

    def tasks(self, seed: int, count: int) -> Iterator[dict[str, Any]]:
        """Rows with different ids, which determine the seeds of their resets."""
        del seed
        return ({"id": f"openenv-{number:06d}"} for number in range(count))

    def reset(self, seed: int, row: Row) -> str:
        """The first observation; a row's ``reset`` has further arguments, such as the index of a task."""
        return self._text(self._session.ask("reset", {"seed": seed, **self._reset, **row.get("reset", {})}))

    def step(self, text: str) -> Step:
        """The reply to an action; any other text ends the episode with reward 0."""
        action: Any = {self._field: text.strip()} if self._field else text
        if not self._field:
            with suppress(ValueError, RecursionError):  # what is no JSON stays a text
                action = json.loads(text)
        answer = self._session.ask("step", action) if isinstance(action, dict) else {}
        if not answer:
            return Step("", 0.0, done=True)
        return Step(self._text(answer), float(answer["reward"] or 0.0), bool(answer["done"]))

    def close(self) -> None:
        """Ends the episode."""
        self._session.close()

    def _text(self, answer: dict[str, Any]) -> str:
        seen = answer["observation"]
        if missing := [name for name in self._show if name not in seen]:
            raise LookupError(f"an observation has no {missing[0]} (options.show), but {', '.join(seen)}")
        names = self._show or [name for name, value in seen.items() if name != "metadata" and value is not None]
        texts = [seen[name] if isinstance(seen[name], str) else json.dumps(seen[name]) for name in names]
        return texts[0] if len(texts) == 1 else "\n".join(map(": ".join, zip(names, texts, strict=True)))


class _Installed:
    """An environment in this process, which answers as its server does; nothing to an invalid action."""

    def __init__(self, path: str) -> None:
        module, _, name = path.rpartition(".")
        try:
            from openenv.core.env_server.interfaces import Environment
            found = getattr(import_module(module), name)
            # A record names the class, too: a verifier calls nothing else.
            if not issubclass(found, Environment):
                raise TypeError(f"{name} does not derive from openenv's Environment")
            self._environment, self._action_type = found(), get_type_hints(found.step)["action"]
        except (ImportError, AttributeError, KeyError, TypeError, ValueError) as error:
            raise RequestError(
                f"environment openenv:{path} cannot be made: {error}", "the library openenv, and a class of it that is "
                "installed, whose step has a typed action") from None
        self.schema = self._action_type.model_json_schema()
        self.close = self._environment.close

    def ask(self, kind: str, data: dict[str, Any]) -> dict[str, Any]:
        from openenv.core.env_server import serialization, types
        if kind == "reset":
            taken = signature(self._environment.reset).parameters
            takes_all = any(parameter.kind is Parameter.VAR_KEYWORD for parameter in taken.values())
            observation = self._environment.reset(
                **{name: value for name, value in data.items() if takes_all or name in taken})
        else:
            try:
                action = serialization.deserialize_action(data, self._action_type)
            except ValueError:
                return {}
            observation = self._environment.step(action)
        return dict(types.WSObservationResponse(
            data=serialization.serialize_observation(observation)).model_dump(mode="json")["data"])


class _Server:
    """A session on a server, which begins with its first request."""

    def __init__(self, url: str) -> None:
        self._address, self.schema = f"ws{url.removeprefix('http')}/ws", _action_schema(url)
        self._session = ExitStack()
        self.close = self._session.close

    def ask(self, kind: str, data: dict[str, Any]) -> dict[str, Any]:
        from websockets.exceptions import ConnectionClosed
        from websockets.sync.client import connect
        if kind == "reset":
            self._socket = self._session.enter_context(connect(self._address, open_timeout=60, max_size=None))
        # A server without a free session says so and closes: its message is there even if ours cannot be sent.
        with suppress(ConnectionClosed):
            self._socket.send(json.dumps({"type": kind, "data": data}))
        answer = json.loads(self._socket.recv())
        if answer["type"] != "error":
            return dict(answer["data"])
        if kind == "step" and answer["data"]["code"] == "VALIDATION_ERROR":
            return {}
        raise RuntimeError(f"its server says {answer['data']['code']}: {answer['data']['message']}")


@cache
def _action_schema(url: str) -> dict[str, Any]:
    """The schema of a server's actions. Raises `RequestError` if it cannot be asked."""
    try:
        import_module("websockets.sync.client")
        with urlopen(f"{url}/schema", timeout=60) as reply:  # noqa: S310 - the address is the recipe's own
            return dict(json.load(reply)["action"])
    except (ImportError, OSError, ValueError, KeyError) as error:
        raise RequestError(
            f"environment: openenv cannot ask the server {url}: {error}", "the library websockets, and the address of "
            "a running server, such as http://127.0.0.1:8000", pip_install("websockets", extra=False)) from None
