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
    """Passes steps to callbacks and trackers, and the end to trackers and a webhook.

    A run without a step starts no tracker.
    """

    def __init__(self, trackers: Sequence[str], notify: str, say: Callable[[str], None],
                 callbacks: Sequence[Callback] = ()) -> None:
        """Raises `RequestError` for an unknown tracker, one that is not installed, or an invalid address."""
        # Check here, so that a missing package does not stop a started run.
        check_trackers(trackers)
        if notify:
            check_address(notify)
        self._names, self._notify, self._say, self._callbacks = trackers, notify, say, callbacks
        self._trackers: list[Tracker] = []
        self._first: dict[str, Any] = {}
        self._run = Path()
        self._over = False

    def about(self, run: Path, config: Mapping[str, str]) -> None:
        """Set the run's name and its recipe by dotted key."""
        self._first = {"project": "workings", "name": run.name, "config": dict(config),
                       "folder": str(run.parent.absolute() / "tensorboard" / run.name)}
        self._run = run

    def accepted(self) -> None:
        """Print where an open page shows the run."""
        if link := page_address(self._run):
            self._say(f"page       {link}")

    def step(self, line: Mapping[str, Any]) -> bool:
        """Pass on a step's line without waiting for trackers. Returns False if a callback asks to stop."""
        # Pass copies, because the line is recorded. `is False`, because a callback may return None.
        answers = [callback(dict(line)) for callback in self._callbacks]
        # Not earlier: a run whose plan does not fit must not appear in a tracker.
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
        # Only the error's type: its message may hold a path or a key.
        self.ended(*(("interrupted", "was stopped") if issubclass(kind, KeyboardInterrupt)
                     else ("failed", f"failed: {kind.__name__}")))

    def ended(self, status: str, text: str, values: Mapping[str, Any] = MappingProxyType({})) -> None:
        """Report how it ended, with more ``values`` for programs. Does not raise errors of external services."""
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
        Whether it was accepted. A failure prints a message with the address's host and raises nothing.
    """
    body = json.dumps({"text": text, "content": text, **values}).encode()
    check_address(url)
    request = urllib.request.Request(url, body, {"content-type": "application/json"})  # noqa: S310 - checked
    try:
        with urllib.request.urlopen(request, timeout=ALERT_SECONDS):  # noqa: S310 - checked
            return True
    # Invalid answers and failed connections raise these.
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = f"it answered {error.code}" if isinstance(error, urllib.error.HTTPError) else type(error).__name__
        say(f"the alert to {urlsplit(url).hostname} failed: {reason}")
        return False
