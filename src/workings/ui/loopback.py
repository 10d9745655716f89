"""A port that only programs on this machine can reach."""

import socket

from workings.errors import RequestError

HOST = "127.0.0.1"


def listen(port: int) -> socket.socket:
    """A socket that listens; port 0 takes a free one. Raises `RequestError` where the port is taken."""
    try:
        # It can be opened again at once after a server stops.
        return socket.create_server((HOST, port), backlog=128)
    except OSError as error:
        raise RequestError(f"another program listens on port {port}", "a free port", "--port 0") from error
