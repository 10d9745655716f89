"""vLLM as a sampler, against a small server with its interface; the real one is in `benchmarks/` and `proof/`."""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.http_server import Handler, serving
from workings.config.load import check_recipe
from workings.config.recipe import Recipe
from workings.errors import RequestError, TrainingFailed
from workings.rollouts.samplers.vllm import VllmSampler

RECIPE: dict[str, Any] = {
    "name": "tiny", "device": "cpu", "model": {"source": "pretrained", "id": "some/model"},
    "data": {"traces": "train.jsonl", "max_length": 96}, "method": {"name": "lora", "rank": 4},
    "algorithm": {"name": "grpo", "group": 2, "max_new_tokens": 4}, "rewards": [{"scorer": "answer"}],
    "batch": {"micro_batch": 2}, "optimizer": {"name": "adamw"},
    "training": {"steps": 2, "learning_rate": 0.01, "schedule": "constant"}}


class Door(Handler):
    """Loads adapters, and answers every prompt with two tokens and a stop token."""

    loaded: ClassVar[list[str]] = []
    asked: ClassVar[list[dict[str, Any]]] = []
    stale: ClassVar[bool] = False
    waits: ClassVar[float] = 0.0

    def do_GET(self) -> None:
        """The version, and whether it is well."""
        self._say({"version": "0.32.0"})

    def do_POST(self) -> None:
        """Adapters and completions."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append({"path": self.path, **body})
        if self.path == "/v1/load_lora_adapter":
            assert {"adapter_config.json", "adapter_model.safetensors"} == {
                path.name for path in Path(body["lora_path"]).iterdir()}
            self.loaded.append(body["lora_name"])
            return self._say("loaded")
        if self.path == "/v1/unload_lora_adapter":
            return self._say("unloaded")
        time.sleep(self.waits)
        return self._say({"model": self.loaded[0] if self.stale else body["model"], "choices": [
            {"index": number, "token_ids": [5, 6, 1], "prompt_token_ids": prompt,
             "logprobs": {"token_logprobs": [-0.5, -0.25, -0.125]}}
            for number, prompt in reversed([*enumerate(body["prompt"])])]})

    def _say(self, value: Any) -> None:
        data = (value if isinstance(value, str) else json.dumps(value)).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        with suppress(BrokenPipeError):  # who waited is gone
            self.wfile.write(data)


class Engine:
    """Saves what its state says as adapters."""

    def save(self, state: bytes, directory: Path) -> None:
        """The files of a checkpoint."""
        (directory / "adapter_model.safetensors").write_bytes(state)
        (directory / "optimizer.safetensors").write_bytes(b"moments")


@pytest.fixture
def door() -> Iterator[type[Door]]:
    kind = type("OwnDoor", (Door,), {"loaded": [], "asked": []})
    with serving(kind) as kind.url:  # type: ignore[attr-defined]
        yield kind


def recipe(**changes: Any) -> Recipe:
    return check_recipe({**RECIPE, **changes}, "the test's recipe")


def sampler(weights: Path = Path("weights"), **keys: Any) -> VllmSampler:
    engine: Any = Engine()
    return VllmSampler(recipe(**{"sampler": {"name": "vllm"}, **keys}), engine, weights=weights)


def draw(one: VllmSampler, state: bytes) -> Any:
    return one.sample(state, [[1, 2], [3]], max_new_tokens=4, stop_ids=[1], temperature=0.7, seeds=[1, 2])


def test_tokens_go_in_and_come_out_with_the_adapters_digest(door: Any) -> None:
    one = sampler(sampler={"name": "vllm", "url": door.url})
    first, second = draw(one, b"adapters"), draw(one, b"adapters")
    assert first == second
    assert [(each.tokens, each.stop_token, each.log_probs) for each in first] == [
        ([5, 6], 1, [-0.5, -0.25, -0.125])] * 2
    assert len(door.loaded) == 1, "the same adapters are loaded once"
    assert one.tag == {"name": "vllm", "version": "0.32.0", "adapter": door.loaded[0]}
    asked = door.asked[1]
    assert (asked["prompt"], asked["temperature"], asked["top_p"], asked["top_k"], asked["stop_token_ids"]) == (
        [[1, 2], [3]], 0.7, 1.0, -1, [1])
    assert "seed" not in asked, "a seed ends the server on a CPU"


def test_changed_adapters_are_loaded_under_another_name_from_another_folder(door: Any) -> None:
    one = sampler(sampler={"name": "vllm", "url": door.url})
    draw(one, b"adapters")
    draw(one, b"others")
    loads = [each for each in door.asked if each["path"] == "/v1/load_lora_adapter"]
    assert len({each["lora_name"] for each in loads}) == len({each["lora_path"] for each in loads}) == 2
    assert door.asked[-2] == {"path": "/v1/unload_lora_adapter", "lora_name": door.loaded[0]}


def test_completions_of_earlier_adapters_are_refused(door: Any) -> None:
    one = sampler(sampler={"name": "vllm", "url": door.url})
    draw(one, b"adapters")
    door.stale = True
    with pytest.raises(TrainingFailed, match="with the adapters "):
        draw(one, b"others")


def test_a_server_that_is_not_there() -> None:
    with pytest.raises(TrainingFailed, match=r"vLLM at http://127\.0\.0\.1:9"):
        draw(sampler(sampler={"name": "vllm", "url": "http://127.0.0.1:9"}), b"adapters")
    with pytest.raises(RequestError, match=r"sampler\.command: no-such-vllm"):
        draw(sampler(sampler={"name": "vllm", "command": "no-such-vllm"}), b"adapters")


SERVER = """import json, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from contextlib import suppress
from pathlib import Path
Path(__file__).with_name("argv.json").write_text(json.dumps(sys.argv[1:]))
class Door(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"version": "0.32.0"}')
    def log_message(self, *words):
        pass
HTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Door).serve_forever()
"""


def started(folder: Path, program: str, **keys: Any) -> VllmSampler:
    """A sampler whose server is a program in a folder."""
    (folder / "vllm.py").write_text(program)
    (folder / "vllm").write_text(f"#!/bin/sh\nexec {sys.executable} {folder}/vllm.py \"$@\"\n")
    (folder / "vllm").chmod(0o700)
    return sampler(sampler={"name": "vllm", "command": str(folder / "vllm"), **keys})


def test_a_server_is_started_with_the_words_of_the_recipe(tmp_path: Path) -> None:
    one = started(tmp_path, SERVER, arguments=["--seed", "3"])
    with pytest.raises(TrainingFailed, match="501"):  # this server loads no adapters
        draw(one, b"adapters")
    words = json.loads((tmp_path / "argv.json").read_text())
    assert words[:2] == ["serve", "weights"]
    assert {"--enable-lora", "processed_logprobs", "--generation-config", "float32", "96"} <= {*words}
    assert words[-2:] == ["--seed", "3"]


def test_a_server_that_does_not_start_is_ended(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="serve did not start"):
        draw(started(tmp_path, "import time; time.sleep(60)", start_seconds=0.5), b"adapters")
    with pytest.raises(RequestError, match="no such model"):
        draw(started(tmp_path, "raise SystemExit('no such model')"), b"adapters")


def test_completions_that_take_too_long(door: Any) -> None:
    door.waits = 5.0
    with pytest.raises(TrainingFailed, match="timed out"):
        draw(sampler(sampler={"name": "vllm", "url": door.url, "seconds": 0.2}), b"adapters")


@pytest.mark.parametrize(("changes", "told"), [
    ({"sampler": {"name": "vllm", "top_p": 0.9}}, "top_p"),
    ({"sampler": {"name": "vllm", "top_k": 50}}, "top_k"),
    ({"sampler": "sglang"}, "vllm"),
    ({"sampler": "vllm", "algorithm": {"name": "sft"}, "rewards": []}, "learns from its own completions"),
])
def test_what_would_sample_otherwise_is_refused(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(RequestError, match=told):
        recipe(**changes)


def test_a_run_without_adapters_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="adapters on weights in a folder"):
        sampler(tmp_path, sampler="vllm", method={"name": "full"})
