"""A port that only programs on this machine can reach."""

import socket

from workings.errors import RequestError

HOST = "127.0.0.1"


def listen(port: int) -> socket.socket:
    """A socket that listens; port 0 takes a free one. Raises `RequestError` where the port is taken."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    # Otherwise the port stays in use for about a minute after a server stops.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
    except OSError as error:
        listener.close()
        raise RequestError(f"another program listens on port {port}", "a free port", "--port 0") from error
    listener.listen(128)
    return listener
