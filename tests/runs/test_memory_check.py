"""What is between a recipe and its run: verdict before weights, nearest plan, memory that runs out all the same."""

import json
import shutil

import pytest

from tests.engines.tiny import tiny_shape
from tests.evidence import reseal
from tests.runs.runs_helpers import OTHER_PACKAGE, forty_additions, write_recipe
from workings.data.batches import Position
from workings.engines.base import Memory
from workings.engines.registry import find_engine, find_planning_engine
from workings.errors import DoesNotFit, RequestError
from workings.evidence.verify import verify
from workings.hardware.device import DeviceFacts
from workings.hardware.memory import PROCESS_PEAK
from workings.models.shapes import to_hf_config
from workings.models.tokenizer_training import train_tokenizer
from workings.planning.verdict import memory_verdict
from workings.record.reader import RunRecord
from workings.runs.memory_check import target_here
from workings.runs.train import train


def device(**changes):
    return DeviceFacts(**{"platform": "gpu", "kind": "NVIDIA H200", "count": 1, "memory_limit_bytes": 100 * 2**30,
                          "memory_limit_source": "device (memory_stats)", "mesh": {"fsdp": 1, "tp": 1},
                          "versions": {}, "reason": "asked for"} | changes)


def test_the_verdict_comes_before_any_weight_is_read(tmp_path, monkeypatch):
    folder, out = tmp_path / "weights", tmp_path / "run"
    folder.mkdir()
    train_tokenizer((trace.prompt for trace in forty_additions()[0]), 512).save(folder)
    (folder / "config.json").write_text(json.dumps(to_hf_config(tiny_shape(vocab=512))))
    (folder / "model.safetensors").write_bytes(b"these are no tensors")
    words = [f"model={{source: pretrained, id: {folder}}}", "tokenizer=model", "data.template=plain"]
    with monkeypatch.context() as patch:
        patch.setattr("workings.runs.prepare.memory_verdict", lambda found, facts: memory_verdict(found, device(
            platform="tpu", kind="TPU v0", memory_limit_bytes=1000)))
        with pytest.raises(DoesNotFit, match="does not fit"):  # weights that cannot be read were not read
            train("smoke-tiny", out, words)
    assert not list(tmp_path.glob("run*"))
    with pytest.raises(RequestError, match="cut short"):  # and they are what fails where the verdict is yes
        train("smoke-tiny", out, words)


def test_a_program_that_the_compiler_refuses_is_a_verdict_that_no_force_can_change(tmp_path, monkeypatch):
    """As on a TPU, whose compiler says what it would need; the sentence is libtpu's own."""
    import jax

    from workings.engines.jax.engine import JaxEngine

    def refuse(engine, batch):
        raise jax.errors.JaxRuntimeError(
            "RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space hbm. Used 28.59G "
            "of 15.75G hbm. Exceeded hbm capacity by 12.84G.")
    monkeypatch.setattr(JaxEngine, "compiled_step", refuse)
    with pytest.raises(DoesNotFit, match=r"(?s)28\.59 GiB of 15\.75 GiB.*--force cannot run it") as caught:
        train("smoke-tiny", tmp_path / "run", force=True)
    assert caught.value.answer["limit_bytes"] == int(15.75 * 2**30)
    assert not list(tmp_path.iterdir())


def test_one_compile_serves_verdict_and_training(tmp_path):
    done = train("smoke-tiny", tmp_path / "run", ["training.steps=3"])
    assert done.setup.engine.compilations == 1
    plan = json.loads((done.run / "plan/plan.json").read_text())
    assert plan["source"] == "compiled"
    batch, _ = done.setup.training_data.batches.at(Position())
    assert plan["peak_bytes"] == done.setup.engine.inspect(batch).peak_bytes
    assert done.setup.engine.compilations == 1, "asking again is asking about the same executable"


@pytest.fixture(scope="module")
def sealed(tmp_path_factory, run_forked):
    """A run of the other package's engine, in a child: the package is found there by its path."""
    folder = tmp_path_factory.mktemp("sealed")
    recipe = write_recipe(folder / "asked")
    run_forked("-m", "workings", "train", recipe, "--out", folder / "run",
               environment={"PYTHONPATH": str(OTHER_PACKAGE)})
    return folder / "run"


def test_a_run_that_no_plan_makes_fit_is_refused_and_can_be_forced(tmp_path, monkeypatch):
    monkeypatch.setenv("UNIGRAM_LIMIT_BYTES", "100")
    recipe = write_recipe(tmp_path / "asked")
    with pytest.raises(DoesNotFit, match="no plan of the search fits") as caught:
        train(str(recipe), tmp_path / "run")
    assert "workings plan RECIPE --on v5e-256" in str(caught.value)
    assert caught.value.answer["fits"] is False
    assert caught.value.answer["peak_bytes"] > caught.value.answer["limit_bytes"]
    assert not list(tmp_path.glob("run*"))
    forced = RunRecord.open(train(str(recipe), tmp_path / "run", force=True).run)
    plan = json.loads((forced.path / "plan" / "plan.json").read_text())
    assert plan["peak_bytes"] > plan["limit_bytes"]


@pytest.mark.parametrize(("facts", "name"), [
    (device(platform="cpu", kind="one core"), "cpu"),
    (device(), "h200"),
    (device(kind="NVIDIA H200", count=3), "3 x h200"),
    (device(kind="NVIDIA Unheard Of"), "1 x NVIDIA Unheard Of"),
])
def test_the_device_is_found_in_the_catalog(facts, name):
    found = target_here(facts)
    assert found.name == name
    assert found.devices == facts.count
    assert abs(found.memory_bytes - facts.memory_limit_bytes) < 2


def test_the_share_of_a_card_that_jax_takes_is_counted_once(monkeypatch):
    jax = find_planning_engine("jax")
    for share in (0.95, 0.5):
        monkeypatch.setenv("XLA_PYTHON_CLIENT_MEM_FRACTION", str(share))
        found = target_here(device(memory_share=share))
        assert abs(jax.usable_memory(found)[0] - 100 * 2**30) < 2


def test_memory_that_runs_out_later_keeps_the_last_checkpoint(tmp_path, monkeypatch):
    recipe = write_recipe(tmp_path / "asked")
    monkeypatch.setenv("UNIGRAM_HUNGRY_AT", "8")
    done = train(str(recipe), tmp_path / "run")
    run = RunRecord.open(done.run)
    assert (done.status, run.status, run.manifest.completed_steps) == ("failed", "failed", 7)
    assert [path.name for path in run.checkpoints.folders()] == ["step_000003", "step_000006"]
    assert any(event["kind"] == "out_of_memory" for event in run.events())
    assert "out of memory after step 7" in run.manifest.status_reason
    assert verify(done.run).failed == 0


def test_a_peak_that_still_grows_is_written_down_once(tmp_path, monkeypatch):
    looks = iter(range(10**9, 2 * 10**9, 4096))
    engine = find_engine("unigram").engine
    monkeypatch.setattr(engine, "memory", lambda self: Memory(peak_bytes=next(looks), source="grows at every look"))
    done = train(str(write_recipe(tmp_path / "asked")), tmp_path / "run")
    assert verify(done.run).failed == 0


@pytest.mark.parametrize(("name", "changes", "said"), [
    ("plan/measured.json", {"out_of_memory": "it was full"}, "it was full; the run is complete and has 0 events"),
    ("plan/measured.json", {"measured_source": PROCESS_PEAK, "peak_before_bytes": 2**60, "resident_before_bytes": 1,
                            "growth_bytes": 0}, "gives none"),
    ("plan/plan.json", {"peak_bytes": 3}, "is not the largest of peaks"),
])
def test_a_prediction_that_is_changed_afterwards_is_found(sealed, tmp_path, name, changes, said):
    run = shutil.copytree(sealed, tmp_path / "run")
    values = json.loads((run / name).read_text())
    (run / name).write_text(json.dumps(values | changes))
    reseal.reseal(run)
    found = {check.id: check.text for check in verify(run, level=1).checks if check.verdict == "failed"}
    assert said in found["consistency.machine"]
