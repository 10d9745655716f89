"""Listening on loopback, printing the link, opening the browser."""

import os
import secrets
import webbrowser
from collections.abc import Callable
from pathlib import Path

from workings.ui.app import make_app
from workings.ui.loopback import HOST, listen, quiet_server
from workings.ui.site import page_directory


def kept_token(root: Path, *, new: bool = False) -> str:
    """The token of the page over a folder: the same at every start, so that links stay valid, unless it is to be new.

    It is in the user's cache in a file that only they can read.
    """
    path = page_directory(root) / "token"
    if not new and path.is_file() and (token := path.read_text("ascii").strip()):
        return token
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    token = secrets.token_urlsafe(32)
    # Create it with these permissions: changing them later would leave a gap.
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
        file.write(token + "\n")
    return token


def serve(root: Path, port: int, *, open_browser: bool, say: Callable[[str], None], new_token: bool = False) -> None:
    """Serve the page until it is stopped; prints the link on standard output.

    Raises `RequestError` if something else listens on the port.
    """
    listener = listen(port)  # before printing the link: an early request waits
    # With port 0 the system chooses one, which the guard compares with `Host`.
    port = listener.getsockname()[1]
    token = kept_token(root, new=new_token)
    link = f"http://{HOST}:{port}/?token={token}"
    say(f"the page over {root.resolve()} is at the link below; stop it with Ctrl-C")
    print(link, flush=True)  # noqa: T201  the link is the answer of this command
    if open_browser:
        webbrowser.open(link)
    quiet_server(make_app(root, token=token, port=port)).run(sockets=[listener])
