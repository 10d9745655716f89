"""A model of this machine as a judge: served as OpenAI's chat completions, and asked like any other."""

import json
import threading
from collections.abc import Iterator
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from workings.runs.judge_serve import judge_server
from workings.scoring.judge_endpoint import Endpoint
from workings.testing import adding_model


@pytest.fixture
def url() -> Iterator[str]:
    """A model that adds, behind a server."""
    with judge_server(adding_model(), "adder", 0) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()
        thread.join()


def test_it_is_asked_as_an_endpoint_and_once_a_question(url: str) -> None:
    endpoint = Endpoint(url, "adder", 64)
    asked = [f"What is {n}+7?" for n in (1, 2, 3, 1)]
    replies = endpoint.replies(asked)
    assert replies[0] == replies[3] == "<reasoning>1+7=8</reasoning><answer>8</answer>"
    assert replies[1].endswith("<answer>9</answer>")
    assert len(endpoint.kept) == 3


@pytest.mark.parametrize(("path", "body", "code"), [
    ("/v1/models", b"{}", 404), ("/v1/chat/completions", b"no json", 400),
    ("/v1/chat/completions", b'{"messages": []}', 400),
    ("/v1/chat/completions", b'{"messages": [{"role": "user", "content": "a"}], "temperature": 1}', 400)])
def test_other_requests_are_refused(url: str, path: str, body: bytes, code: int) -> None:
    with pytest.raises(HTTPError) as caught:
        urlopen(Request(url.removesuffix("/v1") + path, body))
    assert caught.value.code == code
    assert "message" in json.load(caught.value)["error"]
