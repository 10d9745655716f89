"""Serves the page: listens on this machine, prints the link, opens the browser."""

import os
import secrets
import webbrowser
from collections.abc import Callable
from pathlib import Path

from workings.ui.app import make_app
from workings.ui.loopback import HOST, listen, quiet_server
from workings.ui.site import page_directory


def kept_token(root: Path, *, new: bool = False) -> str:
    """The page's token, from a file in the user's cache that only they can read; ``new`` replaces it."""
    path = page_directory(root) / "token"
    token = path.read_text("ascii").strip() if path.is_file() else ""
    if token and not new:
        return token
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    token = secrets.token_urlsafe(32)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
        file.write(token + "\n")
    return token


def serve(root: Path, port: int, *, open_browser: bool, say: Callable[[str], None], new_token: bool = False) -> None:
    """Print the link, and serve the page until it is stopped. Raises `RequestError` if the port is taken."""
    listener = listen(port)
    port = listener.getsockname()[1]  # the system chooses one for port 0
    token = kept_token(root, new=new_token)
    link = f"http://{HOST}:{port}/?token={token}"
    say(f"the page over {root.resolve()} is at the link below; stop it with Ctrl-C")
    print(link, flush=True)  # noqa: T201  the link is the answer of this command
    if open_browser:
        webbrowser.open(link)
    quiet_server(make_app(root, token=token, port=port)).run(sockets=[listener])
