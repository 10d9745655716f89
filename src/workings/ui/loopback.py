"""A port that only programs on this machine can reach, and a server for it."""

import socket

import uvicorn
from fastapi import FastAPI

from workings.errors import RequestError

HOST = "127.0.0.1"


def listen(port: int) -> socket.socket:
    """A socket that listens on this machine; port 0: a free port. Raises `RequestError` if the port is taken."""
    try:
        return socket.create_server((HOST, port), backlog=128)
    except OSError as error:
        raise RequestError(f"another program listens on port {port}", "a free port", "--port 0") from error


def quiet_server(app: FastAPI) -> uvicorn.Server:
    """A server that prints no line per request; ``run(sockets=[…])`` serves until it is stopped."""
    # uvicorn's own logging configuration would close other libraries' streams.
    return uvicorn.Server(uvicorn.Config(app, log_level="warning", log_config=None, access_log=False,
                                         server_header=False, timeout_graceful_shutdown=2))
