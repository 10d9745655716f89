"""Runs in several processes: one record, one process's numbers, a stop that all hear, a failure that ends all."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import weakref
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.distributed.conftest import ThreadProcesses, in_thread
from tests.distributed.killing import IMPATIENT
from tests.distributed.tiny_recipe import RECIPE
from tests.engines.tiny import random_batch, tiny_shape
from tests.runs.runs_helpers import write_recipe
from workings.cli.main import app
from workings.cli.train import cut_short_message
from workings.config.load import load_recipe
from workings.distributed import calls
from workings.distributed.calls import PeerFailed
from workings.distributed.process_group import ProcessGroup
from workings.errors import Interrupted, RequestError, StorageError, WorkingsError
from workings.evidence.verify import verify
from workings.models.shards import shard_file
from workings.publish.export import ORIGIN_FILE, export_run
from workings.record import jsonl
from workings.record.layout import METRICS, PREDICTIONS, RECIPE_EVALUATION
from workings.record.reader import RunRecord
from workings.runs.train import refuse_sampling_over_hosts
from workings.runs.train_and_evaluate import train_and_evaluate


def test_the_others_make_the_calls_of_the_first_and_hear_the_end(pair) -> None:
    first, second, store, made = pair
    own, other = made(), made()
    thread, found = in_thread(second, other, facts={"data": 1})
    batch = replace(random_batch(tiny_shape(), micro=2), divided_by=7.5)
    with first:
        assert first.agree({"data": 1}, {"index": 0}) == [{"index": 0}, {"index": 1}]
        engine = first.coordinate(own)
        state = engine.init(3)
        for _ in range(3):
            state, _ = engine.step(state, batch, 0.5)
        below = engine.without_adapters(state)
        engine.evaluate(below, batch)
        engine.evaluate(state, batch)
        first.outcome = {"status": "complete"}
    thread.join()
    assert own.divisors == other.divisors == [7.5] * 3
    assert other.asked == own.asked == [("init", 3), *(("step", batch.tokens.tolist(), i) for i in range(3)),
                                        ("evaluate", 4), ("evaluate", 3)]
    assert found["end"]["status"] == "complete"
    assert {"left/0", "left/1"} <= set(store)


def test_a_process_that_is_lost_at_the_very_end_is_a_sentence(pair, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, _, made = pair
    monkeypatch.setattr(ThreadProcesses, "timeout", 1.0)  # the second one waits for a call that never comes
    thread, found = in_thread(second, made(), facts={"data": 1})

    def broken(processes: ThreadProcesses, value: object) -> object:
        raise ValueError("Gloo all-reduce failed: connection reset by peer")

    first.agree({"data": 1}, {"index": 0})
    first.coordinate(made())
    monkeypatch.setattr(ThreadProcesses, "broadcast", broken)
    # The connection breaks for both: the first may read what the second says of it.
    with pytest.raises((Interrupted, PeerFailed), match=r"another process is gone.*connection reset") as caught:
        first.__exit__(None, None, None)
    assert caught.value.exit_code == Interrupted.exit_code
    thread.join()
    assert isinstance(found["error"], WorkingsError)


def test_the_sentence_of_a_lost_process_is_seen_while_messages_are_kept_aside() -> None:
    words = ("import os\nfrom workings.engines.import_warnings import error_stream, without_noise\n"
             "with without_noise():\n    os.write(error_stream(), b'gone')\n    os._exit(130)")
    ended = subprocess.run([sys.executable, "-c", words], capture_output=True, check=False)
    assert (ended.returncode, ended.stderr) == (130, b"gone")


def test_the_others_forget_a_state_as_soon_as_the_first_has(pair) -> None:
    first, second, _, made = pair
    engine, made_states, alive = made(), [], []

    class Weights(list):
        pass

    def init(seed, *, trainable=True):
        del trainable
        weights = Weights([seed])
        made_states.append(weakref.ref(weights))
        return weights

    engine.init = init
    engine.evaluate = lambda state, batch: alive.append([ref() is not None for ref in made_states])
    thread, _ = in_thread(second, engine)
    with first:
        coordinator = first.coordinate(made())
        state = coordinator.init(1)
        del state
        coordinator.evaluate(coordinator.init(2), random_batch(tiny_shape()))
        first.outcome = {}
    thread.join()
    assert alive == [[False, True]]


def test_the_others_do_not_lose_the_first_while_it_computes_alone(pair, monkeypatch) -> None:
    first, second, store, made = pair
    monkeypatch.setattr(calls, "IDLE_SECONDS", 0.05)
    thread, found = in_thread(second, made())
    with first:
        engine = first.coordinate(made())
        state = engine.init(1)
        while sum(key.startswith("broadcast/") for key in store) < 3:
            time.sleep(0.01)
        engine.evaluate(state, random_batch(tiny_shape()))
        first.outcome = {"status": "complete"}
    thread.join()
    assert found["end"] == {"status": "complete"}


@pytest.mark.parametrize("error", [
    RuntimeError("[../gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:1"),
    ValueError("UNKNOWN: Gloo AllGather failed: Connection reset by peer"), ConnectionResetError("Broken pipe")])
def test_any_error_of_a_collective_call_says_how_to_go_on(pair, error) -> None:
    first, _, _, made = pair
    own = made()
    own.evaluate = lambda *_: (_ for _ in ()).throw(error)
    with first:
        engine = first.coordinate(own)
        state = engine.init(1)
        with pytest.raises(WorkingsError, match=r"another process is gone.* --auto-resume"):
            engine.evaluate(state, random_batch(tiny_shape()))


def sharding(made, wait: threading.Event, *, count: int = 2):
    """Engines of two processes whose second one writes its shard when ``wait`` is set."""
    own, other = made(), made()
    for index, engine in enumerate((own, other)):
        def save_shards(state, directory, index=index):
            if index == 1:
                wait.wait()
            (directory / shard_file("model.safetensors", index, count)).touch()
        engine.save_shards = save_shards
    return own, other


def test_a_checkpoint_in_shards_waits_for_every_process(pair, tmp_path) -> None:
    first, second, _, made = pair
    waited = threading.Event()
    own, other = sharding(made, waited)
    thread, _ = in_thread(second, other)
    with first:
        engine = first.coordinate(own)
        state = engine.init(1)
        threading.Timer(0.3, waited.set).start()
        for step in ("one", "two"):
            (tmp_path / step).mkdir()
            engine.save_shards(state, tmp_path / step)
            assert len([*(tmp_path / step).iterdir()]) == 2
        first.outcome = {}
    thread.join()


@pytest.mark.parametrize(("fails", "said"), [
    (True, "process 1: no space left"), (False, r"process 0 does not see .*model\.shard_00002_of_00003")])
def test_a_checkpoint_without_a_shard_is_none(pair, tmp_path, monkeypatch, fails, said) -> None:
    first, second, _, made = pair
    monkeypatch.setattr(calls, "SEEN_SECONDS", 0.0)
    own, other = sharding(made, threading.Event(), count=3)
    other.save_shards = lambda *_: (_ for _ in ()).throw(StorageError("no space left")) if fails else (
        tmp_path / shard_file("model.safetensors", 1, 3)).touch()
    thread, _ = in_thread(second, other)

    def save(engine) -> None:
        engine.save_shards(engine.init(1), tmp_path)

    with pytest.raises(WorkingsError, match=said), first:
        save(first.coordinate(own))
    thread.join()


def test_other_data_in_another_process_are_refused_by_name(pair) -> None:
    first, second, _, made = pair
    there = {"recipe": {"training": {"steps": 2, "learning_rate": 0.1}}, "weights": {"model.safetensors": "b"}}
    here = {"recipe": {"training": {"steps": 2, "learning_rate": 0.2}}, "weights": {"model.safetensors": "a"}}
    thread, found = in_thread(second, made(), facts=there)
    with pytest.raises(RequestError) as caught, first:
        first.agree(here, {})
    assert caught.value.given == (
        "process 1 with recipe.training.learning_rate: 0.1; process 0 has 0.2; "
        "process 1 with weights.model.safetensors: b; process 0 has a")
    thread.join()
    assert isinstance(found["error"], PeerFailed)
    assert found["error"].exit_code == 2
    assert "process 1 with recipe.training.learning_rate" in str(found["error"])


def test_a_stop_that_only_another_process_was_asked_for_reaches_the_first(pair, monkeypatch) -> None:
    first, second, _, made = pair
    monkeypatch.setattr(calls, "IDLE_SECONDS", 0.05)  # between two calls a process looks whether it was asked
    asked = threading.Event()
    thread, _ = in_thread(second, made(), stop=asked.is_set)
    with first:
        first.coordinate(made())
        assert not first.stop_requested(False)
        asked.set()
        while not first.stop_requested(False):
            time.sleep(0.05)
        first.outcome = {}
    thread.join()


def test_memory_that_runs_out_in_one_process_ends_the_run_of_all(pair) -> None:
    """The other one dies in its step; the first one's own step then breaks, as a collective call does."""
    first, second, _, made = pair
    own = made()
    thread, found = in_thread(second, other := made())
    other.step = lambda *_: (_ for _ in ()).throw(MemoryError("no bytes left"))
    own.step = lambda *_: thread.join() or (_ for _ in ()).throw(RuntimeError("Connection closed by peer"))
    with first:
        engine = first.coordinate(own)
        with pytest.raises(MemoryError, match="process 1: no bytes left"):
            engine.step(engine.init(0), random_batch(tiny_shape()), 0.5)
    assert isinstance(found["error"], MemoryError)


@pytest.mark.parametrize(("environment", "words", "said"), [
    ({"WORLD_SIZE": "2"}, ("doctor",), "workings doctor cannot run in several processes (WORLD_SIZE=2)"),
    ({"WORLD_SIZE": "2"}, ("train", "smoke-tiny", "--out", "run", "engine=jax"),
     "engine jax does not read WORLD_SIZE=2"),
    ({"JAX_NUM_PROCESSES": "2", "JAX_PROCESS_ID": "0"}, ("train", "smoke-tiny", "--out", "run", "engine=jax"),
     "JAX_COORDINATOR_ADDRESS must be set"),
    ({"PET_NNODES": "2"}, ("train", "smoke-tiny", "--out", "run", "engine=jax"), "PET_NNODES=2 started several"),
    ({}, ("train", "smoke-tiny", "--out", "s3://bucket/run"), "--out s3://bucket/run is an address"),
    ({}, ("train", "smoke-tiny", "--auto-resume"), "--auto-resume needs --out"),
    ({"PET_NNODES": "2"}, ("train", "smoke-tiny", "--out", "run", "engine=torch"), "PET_NNODES=2 started several"),
    ({"SLURM_STEP_NUM_TASKS": "2"}, ("train", "smoke-tiny", "--out", "run", "engine=torch"), "SLURM_STEP_NUM_TASKS=2"),
    ({"OMPI_COMM_WORLD_SIZE": "2"}, ("train", "smoke-tiny", "--out", "run", "engine=torch"), "OMPI_COMM_WORLD_SIZE=2"),
])
def test_what_a_launcher_may_not_ask_for_is_refused(environment, words, said, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    refused = CliRunner().invoke(app, words).exception
    assert isinstance(refused, RequestError)
    assert said in str(refused)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("hosts", "copies", "refused"), [
    ("aabb", 1, True), ("aabbccdd", 2, True), ("aaaa", 1, False), ("aabb", 2, False), ("aabb", 4, False),
    ("ab", 2, False), ("a", 1, False)])
def test_rollouts_of_a_model_that_is_split_over_hosts_are_refused(hosts: str, copies: int, refused: bool) -> None:
    rewarded = load_recipe("smoke-tiny", ["algorithm={name: grpo, group: 2, max_new_tokens: 8}",
                                          "rewards=[{scorer: answer}]"]).recipe
    mesh = {"replicate": copies, "fsdp": 1, "tp": 1}
    with pytest.raises(RequestError, match=r"sampler\.name=vllm, or mesh\.replicate=") if refused else nullcontext():
        refuse_sampling_over_hosts(rewarded, mesh, [*hosts])
    refuse_sampling_over_hosts(load_recipe("smoke-tiny").recipe, mesh, [*hosts])


def losses(run: Path) -> list[float]:
    """Of the steps, and of the held-out rows wherever they were looked at."""
    return [value for line in jsonl.read(run / METRICS)[0] for key, value in line.items()
            if key in ("loss", "evaluation_loss")]


def test_two_processes_are_stopped_and_one_goes_on(tmp_path, start_forked, run_ranks, monkeypatch) -> None:
    """`torchrun` of the real command line, ended by SIGTERM to its agent; one process resumes to the end. Losses are
    those of one process throughout, and the records verify. Two processes then answer items and export the model, with
    the result of one."""
    monkeypatch.chdir(tmp_path)
    write_recipe(tmp_path, RECIPE)
    Path("impatient.py").write_text(IMPATIENT)
    words = ["--standalone", "--nproc-per-node", "2", "impatient.py", "train", "recipe.yaml", "--out", "two", "--json"]
    child = start_forked("-m", "torch.distributed.run", *words, cwd=tmp_path, environment={"OMP_NUM_THREADS": "1"})
    metrics = tmp_path / "two.partial" / METRICS
    while child.poll() is None and not (metrics.exists() and metrics.read_bytes().count(b"\n") >= 4):
        time.sleep(0.02)
    child.send_signal(signal.SIGTERM)
    out, err = child.communicate()
    answer = json.loads(out.splitlines()[-1])
    assert answer["status"] == "interrupted", err
    assert "exitcode  : 130" in err or child.returncode, err
    stopped = RunRecord.open(tmp_path / "two").manifest
    assert stopped.device.processes == 2
    assert (stopped.device.mesh, stopped.global_batch) == ({"fsdp": 2, "tp": 1}, 4)
    checks = json.loads((tmp_path / "two" / "env" / "device_checks.json").read_text())
    assert checks["devices"] == ["cpu of process 0", "cpu of process 1"]
    assert verify(tmp_path / "two").failed == 0
    # What a process says that a second signal ends after the first one has done all this.
    assert "SIGTERM: what was trained is sealed in" in cut_short_message(tmp_path / "two", "SIGTERM")
    begun = losses(tmp_path / "two")
    assert 4 <= answer["steps"] < 24

    with pytest.raises(RequestError, match="micro batches have 1 rows over all devices, and the run had 2") as caught:
        train_and_evaluate("recipe.yaml", tmp_path / "two", (), resume=True)
    assert caught.value.try_next == "batch.micro_batch=2"
    alone = ["batch.micro_batch=2", "evaluation.base=false"]
    straight = train_and_evaluate("recipe.yaml", tmp_path / "one", alone)
    np.testing.assert_allclose(begun, losses(tmp_path / "one")[:len(begun)], atol=1e-5)
    assert straight.training.status == "complete"
    with pytest.raises(RequestError, match=r"evaluation\.base"):
        train_and_evaluate("recipe.yaml", tmp_path / "two", alone, resume=True)
    resumed = train_and_evaluate("recipe.yaml", tmp_path / "two", alone[:1], resume=True)
    assert resumed.training.status == "complete"
    np.testing.assert_allclose(losses(tmp_path / "two"), losses(tmp_path / "one"), atol=1e-5)
    assert resumed.scorecard == straight.scorecard
    assert verify(tmp_path / "two").failed == 0
    moved = [event["moved"] for event in jsonl.read(tmp_path / "two" / "train" / "events.jsonl")[0] if "moved" in event]
    assert moved == [["batch.micro_batch: 1 before, 2 now",
                      "mesh: {'fsdp': 2, 'tp': 1} before, {'fsdp': 1, 'tp': 1} now"]]

    shutil.copy(tmp_path / "items.jsonl", tmp_path / "again.jsonl")
    run_ranks("workings", "eval", tmp_path / "two", "--items", tmp_path / "again.jsonl", "--out", tmp_path / "answers")
    assert same_answers(tmp_path / "answers", tmp_path / "two" / RECIPE_EVALUATION)
    run_ranks("workings", "export", tmp_path / "two", "--out", tmp_path / "from two")
    assert export_run(tmp_path / "two", tmp_path / "from one").files == json.loads(
        (tmp_path / "from two" / ORIGIN_FILE).read_text())["files"]


def same_answers(*units: Path) -> bool:
    """Whether evaluations have the same completions."""
    first, second = ([(each["id"], each["completion"]) for each in jsonl.read(unit / PREDICTIONS)[0]] for unit in units)
    return first == second and len(first) > 0


def test_an_environment_without_a_launcher_is_one_process(monkeypatch) -> None:
    assert "WORLD_SIZE" not in os.environ
    with ProcessGroup.of("torch") as group:
        assert (group.is_coordinator, group.count, group.agree({}, {"a": 1}), group.stop_requested(True)) == (
            True, 1, [{"a": 1}], True)
        assert group.coordinate("engine") == "engine"
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(RequestError, match="WORLD_SIZE=2 needs RANK, MASTER_ADDR, MASTER_PORT"):
        ProcessGroup.of("torch")
