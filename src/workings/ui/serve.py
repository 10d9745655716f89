"""Listening on loopback, printing the link, opening the browser."""

import os
import secrets
import webbrowser
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import uvicorn

from workings.record.page_address import open_page
from workings.ui.app import make_app
from workings.ui.loopback import HOST, listen
from workings.ui.site import page_directory


class PageServer(uvicorn.Server):
    """Ends answers that are still being sent when it is told to stop, instead of waiting for them and breaking them."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop, as a signal asks for."""
        self.config.app.state.stopping.set()  # type: ignore[union-attr]
        super().handle_exit(sig, frame)


def kept_token(root: Path, *, new: bool = False) -> str:
    """The token of the page over a folder: the same at every start, so that links and bookmarks stay good.

    It is in the person's cache in a file that only they can read. ``new`` makes another one; links with the one
    before open nothing any more.
    """
    path = page_directory(root) / "token"
    if not new and path.is_file() and (token := path.read_text("ascii").strip()):
        return token
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    token = secrets.token_urlsafe(32)
    # Made with its rights, not given them afterwards: in between others could open it.
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
        file.write(token + "\n")
    return token


def serve(root: Path, port: int, *, open_browser: bool, say: Callable[[str], None], new_token: bool = False) -> None:
    """Serve the page until it is stopped; prints the link on standard output.

    ``new_token`` makes the links of earlier starts useless.

    Raises:
        RequestError: something else listens on the port.
    """
    listener = listen(port)  # before the link is out: anyone who is quicker than the server waits
    # With port 0 the system has chosen one, and the guard has to know it: `Host` names it.
    port = listener.getsockname()[1]
    token = kept_token(root, new=new_token)
    link = f"http://{HOST}:{port}/?token={token}"
    say(f"the page over {root.resolve()} is at the link below; stop it with Ctrl-C")
    print(link, flush=True)  # noqa: T201  the link is the answer of this command
    if open_browser:
        webbrowser.open(link)
    # Without its own configuration: that would close every handler of the process, and absl's closes its stream.
    config = uvicorn.Config(make_app(root, token=token, port=port), log_level="warning", log_config=None,
                            access_log=False, server_header=False, timeout_graceful_shutdown=2)
    with open_page(root, f"http://{HOST}:{port}"):
        PageServer(config).run(sockets=[listener])
