"""A port that only programs on this machine can reach, and a server for it."""

import socket

import uvicorn
from fastapi import FastAPI

from workings.errors import RequestError

HOST = "127.0.0.1"


def listen(port: int) -> socket.socket:
    """A socket that listens; port 0 takes a free one. Raises `RequestError` where the port is taken."""
    try:
        # It can be opened again at once after a server stops.
        return socket.create_server((HOST, port), backlog=128)
    except OSError as error:
        raise RequestError(f"another program listens on port {port}", "a free port", "--port 0") from error


def quiet_server(app: FastAPI) -> uvicorn.Server:
    """A server that prints no line per request; ``run(sockets=[…])`` serves until it is stopped."""
    # Its default logging configuration would close all handlers, and absl's closes its stream.
    return uvicorn.Server(uvicorn.Config(app, log_level="warning", log_config=None, access_log=False,
                                         server_header=False, timeout_graceful_shutdown=2))
