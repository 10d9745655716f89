"""`workings serve`: other people's clients ask a model of this machine."""

import asyncio
import gc
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from openai import OpenAI

from tests.doubles import adding_model
from tests.runs.tasks import inspect_file
from workings.errors import RequestError
from workings.scoring.judge_endpoint import KEY, Endpoint
from workings.serving.server import make_server
from workings.ui.loopback import listen

TOKEN = "a-token"
QUESTION = {"model": "adder", "messages": [{"role": "user", "content": "What is 1+7?"}], "temperature": 0}
SUM = "<reasoning>1+7=8</reasoning><answer>8</answer>"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The address, up to ``/v1``, of a model that adds, on a server in a thread."""
    listener, server = listen(0), make_server(adding_model(), "adder", token=TOKEN)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    server.should_exit = True
    thread.join()


def test_the_openai_package_lists_asks_and_streams(url: str) -> None:
    with OpenAI(base_url=url, api_key=TOKEN) as client:
        ask_in_every_form(client)


def ask_in_every_form(client: OpenAI) -> None:
    """Lists, asks, cuts, stops and streams."""
    assert [model.id for model in client.models.list()] == ["adder"]
    found = client.chat.completions.create(**QUESTION, n=2, max_tokens=100)
    assert [choice.message.content for choice in found.choices] == [SUM, SUM]
    assert found.usage is not None
    assert (found.usage.prompt_tokens, found.usage.completion_tokens) == (12, 2 * len(SUM))
    cut = client.chat.completions.create(**QUESTION, max_completion_tokens=11).choices[0]
    assert (cut.message.content, cut.finish_reason) == (SUM[:11], "length")
    stopped = client.chat.completions.create(**QUESTION, stop="</reasoning>").choices[0]
    assert (stopped.message.content, stopped.finish_reason) == ("<reasoning>1+7=8", "stop")
    *chunks, counts = client.chat.completions.create(**QUESTION, stream=True, stream_options={"include_usage": True})
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == SUM
    assert [chunk.choices[0].finish_reason for chunk in chunks] == [None, "stop"]
    assert counts.usage.total_tokens == 12 + len(SUM)


def test_a_judge_asks_it_once_a_question(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, TOKEN)
    endpoint = Endpoint(url, "adder", 64)
    replies = endpoint.replies([f"What is {n}+7?" for n in (1, 2, 3, 1)])
    assert replies[0] == replies[3] == SUM
    assert len(endpoint.kept) == 3


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # inspect_ai leaves streams open and calls what tenacity deprecates
def test_inspect_ai_scores_it(url: str, tmp_path: Path) -> None:
    pytest.importorskip("inspect_ai", reason="needs inspect_ai")
    # The adder is wrong where the first number is a multiple of four.
    assert inspected(url, tmp_path) == {f"sum-{k}": "I" if k % 4 == 0 else "C" for k in range(1, 9)}
    gc.collect()  # its open streams are found here, and not in the next test


def inspected(url: str, folder: Path) -> dict[str, str]:
    """The scores that inspect_ai gives the served model."""
    import inspect_ai
    from inspect_ai.model import get_model

    model = get_model("openai-api/workings/adder", base_url=url, api_key=TOKEN, memoize=False)
    [log] = inspect_ai.eval(f"{inspect_file(folder)}@sums", model=model, log_dir=str(folder), display="none",
                            acp_server=False, ctl_server=False, temperature=0)
    assert log.status == "success", log.error
    return {sample.id: sample.scores["pattern"].value for sample in log.samples}


@pytest.mark.slow
def test_a_task_of_verifiers_rewards_it(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    vf = pytest.importorskip("verifiers.v1", reason="needs verifiers 0.4")
    from verifiers.v1.clients.client import resolve_client
    from verifiers.v1.configs.client import EvalClientConfig
    from verifiers.v1.dialects.chat import ChatDialect
    from verifiers.v1.graph import prepare_turn

    class Sum(vf.Task[vf.TaskData]):
        @vf.reward
        async def right(self, trace: vf.Trace) -> float:
            return float(f"<answer>{int(trace.task.data.name) + 7}</answer>" in trace.last_reply)

    async def reward(number: int) -> float:
        task = Sum(vf.TaskData(name=str(number), prompt=f"What is {number}+7?"))
        trace = vf.Trace(task=vf.TraceTask(type="Sum", data=task.data), agent=vf.AgentInfo(config=vf.AgentConfig()))
        client = resolve_client(EvalClientConfig(base_url=url, api_key_var="SERVED_KEY"))
        body = {"model": "adder", "temperature": 0, "messages": [{"role": "user", "content": task.data.prompt}]}
        turn = prepare_turn(trace, [vf.UserMessage(content=task.data.prompt)])
        turn.commit(await client.get_response(ChatDialect(), body, vf.SamplingConfig(temperature=0)))
        await client.close()
        await task.score(trace)
        return trace.reward

    monkeypatch.setenv("SERVED_KEY", TOKEN)
    # The adder is wrong where the first number is a multiple of four.
    assert [asyncio.run(reward(number)) for number in range(1, 9)] == [float(n % 4 != 0) for n in range(1, 9)]


@pytest.mark.parametrize(("change", "code", "told"), [
    ({"model": "other"}, 404, "answers as 'adder'"),
    ({"messages": []}, 400, "messages"),
    ({"messages": [{"role": "tool", "content": "1"}]}, 400, "role"),
    ({"messages": [{"role": "assistant", "content": "1"}]}, 400, "must be the user's"),
    ({"top_p": 0.9}, 400, "top_p"),
    ({"min_p": 0.1}, 400, "min_p: this key is not supported"),
    ({"tools": [{"type": "function"}]}, 400, "tools"),
    ({"temperature": 1}, 400, "does not sample"),
    ({"logprobs": True}, 400, "computes no log probabilities"),
])
def test_what_would_change_the_answer_unseen_is_refused(url: str, change: dict, code: int, told: str) -> None:
    body = json.dumps({**QUESTION, **change}).encode()
    with pytest.raises(HTTPError) as caught:
        urlopen(Request(f"{url}/chat/completions", body, {
            "content-type": "application/json", "authorization": f"Bearer {TOKEN}"}))
    with caught.value as error:
        assert error.code == code
        assert told in json.load(error)["error"]["message"]


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer wrong"},
                                     {"authorization": f"Bearer {TOKEN}", "host": "attacker.example"}])
def test_nobody_asks_without_the_token_or_under_another_name(url: str, headers: dict[str, str]) -> None:
    with pytest.raises(HTTPError) as caught:
        urlopen(Request(f"{url}/models", headers=headers))
    with caught.value as error:
        assert error.code == 401


def test_a_port_that_is_taken_is_refused() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(RequestError, match="another program listens on port"):
            listen(other.getsockname()[1])
