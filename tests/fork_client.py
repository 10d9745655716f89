"""A command that runs ``python -m MODULE`` as a forked child of `tests.fork_server`, with its own streams and signals.

For tests of things that start the command line by themselves: shell scripts, notebooks, torchrun.

    python -S tests/fork_client.py MODULE ARGUMENTS

Started for every command, so it imports little. A server must run already.
"""

import json
import os
import signal
import socket
import sys


def main() -> int:
    """Ask for the child, pass signals on to it, end as it ends."""
    # A signal that arrives before there is a child waits for it.
    passed_on = (signal.SIGINT, signal.SIGTERM)
    signal.pthread_sigmask(signal.SIG_BLOCK, passed_on)
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(os.path.join(os.environ["TESTS_FORK_FOLDER"], "socket"))  # noqa: PTH118 - pathlib takes longer
    request = json.dumps({"arguments": ["-m", *sys.argv[1:]], "cwd": os.getcwd(),  # noqa: PTH109
                          "environment": dict(os.environ)}).encode()
    connection.sendall(len(request).to_bytes(8, "big") + request)
    socket.send_fds(connection, [b"f"], [0, 1, 2])
    answer = connection.makefile("rb")
    pid = int.from_bytes(answer.read(8), "big")
    for number in passed_on:
        signal.signal(number, lambda number, frame: os.kill(pid, number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, passed_on)
    code = json.loads(answer.readline())["code"]
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
