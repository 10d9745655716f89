"""Versions, the TPU's lock, space, Kaggle, kernels: each with what is wrong and what is right."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from workings.doctor import kernels, machine
from workings.doctor import versions as checked
from workings.doctor.kernels import check_kernels
from workings.doctor.machine import Needs, check_disk, check_host, check_kaggle, check_tpu, tpu_devices
from workings.doctor.versions import check_versions
from workings.hardware.memory import HostMemory
from workings.hints import pip_install


def by_id(findings):
    return {finding.id: finding for finding in findings}


@pytest.fixture
def versions(monkeypatch):
    """Findings about these versions of JAX and its plugins, on a machine with these accelerators."""
    requirements = ["jaxlib<=0.10.2,>=0.10.1", 'libtpu==0.0.42.*; extra == "tpu"', 'scipy>=9; extra == "other"',
                    'jax-cuda12-plugin[with-cuda]<=0.10.2,>=0.10.2; extra == "cuda12"']
    monkeypatch.setattr(checked, "declared", lambda name: requirements)

    def found(installed, present=()):
        monkeypatch.setattr(checked, "installed_version", lambda name: ({"jax": "0.10.2"} | installed).get(name, ""))
        return by_id(check_versions(dict.fromkeys(present, "there")))

    return found


def test_jax_with_another_jaxlib_is_wrong(versions):
    found = versions({"jaxlib": "0.9.1"})["versions.jaxlib"]
    assert (found.judgement, found.mend) == ("problem", pip_install("jaxlib<=0.10.2,>=0.10.1", extra=False))
    assert list(versions({"scipy": "1.13"})) == ["versions"], "of an extra that no one asked for"


def test_a_plugin_matters_where_its_hardware_is(versions):
    installed = {"jax-cuda12-plugin": "0.10.1", "libtpu": "0.0.51"}
    assert versions(installed)["versions.jax-cuda12-plugin"].judgement == "note"
    found = versions(installed, ["gpu", "tpu"])
    assert found["versions.jax-cuda12-plugin"].judgement == "problem"
    assert (found["versions.libtpu"].judgement, found["versions.libtpu"].mend) == (
        "note", pip_install("libtpu==0.0.42.*", extra=False))


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="processes are listed in /proc")
def test_a_process_that_holds_the_tpu_is_named(tmp_path, monkeypatch):
    chip = tmp_path / "dev/accel0"
    chip.parent.mkdir()
    chip.write_text("")
    assert tpu_devices(tmp_path) == [chip]
    lock = tmp_path / "libtpu_lockfile"
    monkeypatch.setattr(machine, "LOCK_FILE", lock)
    code = "import sys; file = open(sys.argv[1]); print('open', flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code, str(chip)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as holder:
        holder.stdout.readline()
        found = by_id(check_tpu([chip]))["tpu.lock"]
        holder.stdin.close()
    assert (found.judgement, found.mend) == ("problem", f"kill {holder.pid}")
    assert f"process {holder.pid} (python" in found.what
    assert by_id(check_tpu([chip]))["tpu.lock"].judgement == "fine"
    lock.write_text("")
    assert by_id(check_tpu([chip]))["tpu.lock"].mend == f"rm {lock}"


def needs(checkpoint):
    return Needs(checkpoint_bytes=checkpoint, kept=2, weights_bytes=1000, recipe="mine")


def test_room_for_all_checkpoints_and_the_one_being_written(tmp_path):
    free, place = shutil.disk_usage(tmp_path).free, tmp_path / "not" / "made" / "yet"
    assert by_id(check_disk(place, needs(free // 4)))["space.disk"].judgement == "fine"
    tight = by_id(check_disk(place, needs(int(free / 2.5))))["space.disk"]
    assert tight.judgement == "problem"
    assert "checkpoint.keep_last=1" in tight.mend


def test_memory_of_the_host():
    memory = HostMemory(limit_bytes=2000, limit_source="machine", available_bytes=999, available_source="machine")
    assert by_id(check_host(memory, needs(1)))["space.host"].judgement == "note"
    assert by_id(check_host(memory, None))["space.host"].judgement == "fine"


def test_kaggle(monkeypatch):
    monkeypatch.delenv("HF_TOKEN", raising=False)
    assert list(check_kaggle(Path("runs"))) == []
    monkeypatch.setenv("KAGGLE_KERNEL_RUN_TYPE", "Batch")
    found = by_id(check_kaggle(Path("/tmp/runs")))
    assert found["kaggle.output"].mend == "--out /kaggle/working/runs/NAME"
    assert "kaggle_secrets" in found["kaggle.token"].mend
    monkeypatch.setenv("HF_TOKEN", "x")
    assert list(check_kaggle(Path("/kaggle/working/runs"))) == []


def test_an_engine_that_cannot_do_a_format_is_a_note_unless_it_was_asked_for(monkeypatch):
    answers = {"jax": [{"failure": "engine jax: its libraries", "mend": "pip install", "kind": "not installed"}],
               "mine": [{"failure": "the card is gone", "kind": "device", "mend": "nvidia-smi"}]}
    monkeypatch.setattr(kernels, "probe", lambda engine, device, dtypes: answers[engine])
    monkeypatch.setattr(kernels, "engine_names", lambda: ["jax", "mine"])
    assert [finding.judgement for finding in check_kernels([], "auto", ["fp32"])] == ["note", "problem"]
    assert [finding.judgement for finding in check_kernels(["jax"], "auto", ["fp32"])] == ["problem"]


def test_formats_are_compared_where_both_were_timed(monkeypatch):
    timed = {"kernel": "matmul", "devices": ["cpu"], "platform": "cpu", "device": "CPU", "reason": "asked for"}
    monkeypatch.setattr(kernels, "probe", lambda *_: [timed | {"seconds": 0.3}, timed | {"seconds": 0.2}])
    *_, speed = check_kernels(["jax"], "cpu", ["fp32", "bf16"])
    assert (speed.id, speed.what[:42]) == ("speed.jax", "in bf16 a forward pass is 1.50 times as fa")
    assert len([*check_kernels(["jax"], "cpu", ["fp32"])]) == 1


def test_a_child_that_dies_is_a_finding(monkeypatch):
    monkeypatch.setattr(kernels, "CHILD_MODULE", "workings.no_such_module")
    found = next(check_kernels(["jax"], "cpu", ["fp32"]))
    assert found.judgement == "problem"
    assert "the process ended with 1" in found.what
