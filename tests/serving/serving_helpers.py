"""A model on the server of `workings serve`, in a thread. For the tests."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from workings.engines.session import ModelSession
from workings.serving.server import make_server
from workings.ui.loopback import listen

TOKEN = "a-token"


@contextmanager
def served(session: ModelSession, name: str) -> Iterator[str]:
    """The address up to ``/v1``, as long as the server runs."""
    listener = listen(0)
    server = make_server(session, name, token=TOKEN)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    finally:
        server.should_exit = True
        thread.join()
