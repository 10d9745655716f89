"""An alert to a webhook when a run ends, well or not."""

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from workings.errors import RequestError

SECONDS = 10.0
"""How long the end of a run waits for an answer."""


def check_address(url: str) -> None:
    """Raises `RequestError` for what is no address; it is not repeated, because it may hold a key."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise RequestError("an alert to what is not the address of a webhook", "https://…",
                           "https://ntfy.example/my-runs")


def send(url: str, text: str, values: Mapping[str, Any], say: Callable[[str], None]) -> bool:
    """Post a JSON object: ``text`` (as chat programs take it, also as ``content``) and more values.

    Returns:
        Whether it was taken. What goes wrong is said and raises nothing; the address is not shown beyond its host.
    """
    body = json.dumps({"text": text, "content": text, **values}).encode()
    check_address(url)
    request = urllib.request.Request(url, body, {"content-type": "application/json"})  # noqa: S310 - checked
    try:
        with urllib.request.urlopen(request, timeout=SECONDS):  # noqa: S310 - checked
            return True
    # The library raises each of these for an answer or a connection that is none.
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = f"it answered {error.code}" if isinstance(error, urllib.error.HTTPError) else type(error).__name__
        say(f"the alert to {urlsplit(url).hostname} was not taken: {reason}")
        return False
