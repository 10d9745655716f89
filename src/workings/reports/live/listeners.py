"""Listeners of one run: trackers get its steps, a webhook its end."""

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any
from urllib.parse import urlsplit

from workings.errors import RequestError
from workings.record.page_address import page_address
from workings.record.step_listener import Callback, StepListener
from workings.reports.live.watching import Tracker, check_trackers

ALERT_SECONDS = 10.0
"""Seconds that the end of a run waits for the webhook's answer."""


class RunListeners(StepListener):
    """Hands steps to a caller's functions and to trackers, and the end to trackers and a webhook.

    A run that took no step starts no tracker.
    """

    def __init__(self, trackers: Sequence[str], notify: str, say: Callable[[str], None],
                 callbacks: Sequence[Callback] = ()) -> None:
        """Raises `RequestError` for an unknown tracker, one that is not installed, or an invalid address."""
        # Here and not at the first step, so that a missing package stops nothing that has begun.
        check_trackers(trackers)
        if notify:
            check_address(notify)
        self._names, self._notify, self._say, self._callbacks = trackers, notify, say, callbacks
        self._trackers: list[Tracker] = []
        self._first: dict[str, Any] = {}
        self._run = Path()
        self._over = False

    def about(self, run: Path, config: Mapping[str, str]) -> None:
        """Say which run it is, and what its recipe says, by dotted key."""
        self._first = {"project": "workings", "name": run.name, "config": dict(config),
                       "folder": str(run.parent.absolute() / "tensorboard" / run.name)}
        self._run = run

    def accepted(self) -> None:
        """Say where an open page shows the run; of a request that is refused it would show nothing."""
        if link := page_address(self._run):
            self._say(f"page       {link}")

    def step(self, line: Mapping[str, Any]) -> bool:
        """Hands over a step's line; trackers are not waited for. False if a function asked for a stop."""
        # Copies: the line itself goes into the record. `is`: a function that returns nothing asks for nothing.
        answers = [callback(dict(line)) for callback in self._callbacks]
        # Not before: no one wants a run in a tracker whose plan does not fit.
        if len(self._trackers) < len(self._names):
            self._trackers = [Tracker(name, self._first, self._say) for name in self._names]
        for tracker in self._trackers:
            tracker.step(line)
        return not any(answer is False for answer in answers)

    def __enter__(self) -> "RunListeners":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        if kind is None or self._over:
            return
        # Of an error no more than its kind: its message may hold a path or a key.
        self.ended(*(("interrupted", "was stopped") if issubclass(kind, KeyboardInterrupt)
                     else ("failed", f"failed: {kind.__name__}")))

    def ended(self, status: str, text: str, values: Mapping[str, Any] = MappingProxyType({})) -> None:
        """Tell how it ended, with more ``values`` for programs. Raises nothing of what goes wrong outside."""
        self._over = True
        for tracker in self._trackers:
            tracker.close(status)
        if self._notify:
            name = self._first.get("name", "a run")
            send_alert(self._notify, f"workings: {name} {text}", {**values, "run": name, "status": status}, self._say)


def check_address(url: str) -> None:
    """Raises `RequestError` for an invalid address, without repeating it, because it may contain a key."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise RequestError("an alert to something that is not the address of a webhook", "https://…",
                           "https://ntfy.example/my-runs")


def send_alert(url: str, text: str, values: Mapping[str, Any], say: Callable[[str], None]) -> bool:
    """Post a JSON object: ``text`` (as chat programs take it, also as ``content``) and more values.

    Returns:
        Whether it was taken. What goes wrong is said and raises nothing; the address is not shown beyond its host.
    """
    body = json.dumps({"text": text, "content": text, **values}).encode()
    check_address(url)
    request = urllib.request.Request(url, body, {"content-type": "application/json"})  # noqa: S310 - checked
    try:
        with urllib.request.urlopen(request, timeout=ALERT_SECONDS):  # noqa: S310 - checked
            return True
    # The library raises each of these for an invalid answer or a failed connection.
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = f"it answered {error.code}" if isinstance(error, urllib.error.HTTPError) else type(error).__name__
        say(f"the alert to {urlsplit(url).hostname} was not taken: {reason}")
        return False
