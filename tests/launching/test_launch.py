"""Files for launchers: what they say, what is refused, and the very scripts run by two processes."""

import json
import subprocess
from types import SimpleNamespace

import pytest
import yaml

from tests.launching.making import EVERY, WHEEL, job_of, write_wheel
from workings.config.load import load_recipe
from workings.errors import RequestError
from workings.record.environment import LAUNCHER_VARIABLES, launcher
from workings.runs.launch import LaunchRequest, candidates, launch, write_recipe


def scripts(text):
    """The shell that a file holds."""
    if text.startswith("#!"):
        return [text]
    made = yaml.safe_load(text)
    if "kind" not in made:
        return [made["setup"], made["run"]]
    trainer = made["spec"].get("trainer")
    pods = [trainer] if trainer else [
        made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0]]
    return [pod["args"][0] for pod in pods]


@pytest.mark.parametrize("kind", EVERY)
def test_every_file_says_what_it_is_and_its_shell_is_shell(kind):
    (text,) = EVERY[kind].values()
    for said in ("validated, not run", "ab" * 32, "1 GiB of 79.1 GiB", "/shared/sums", "copied from here",
                 "--auto-resume", "WORKINGS_LAUNCHER=", "# Start:"):
        assert said in text, said
    for script in scripts(text):
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)


def test_a_slice_is_asked_for_by_its_labels_and_restarted_as_a_whole():
    made = yaml.safe_load(EVERY["jobset"]["jobset.yaml"])
    annotations = made["metadata"]["annotations"]
    assert annotations["alpha.jobset.sigs.k8s.io/exclusive-topology"] == "cloud.google.com/gke-nodepool"
    job = made["spec"]["replicatedJobs"][0]["template"]["spec"]
    pod = job["template"]["spec"]
    assert (job["parallelism"], job["completions"], job["backoffLimit"]) == (4, 4, 0)
    assert pod["nodeSelector"] == {"cloud.google.com/gke-tpu-accelerator": "tpu-v5-lite-podslice",
                                   "cloud.google.com/gke-tpu-topology": "4x4"}
    assert pod["containers"][0]["resources"]["limits"] == {"google.com/tpu": 4}
    assert "JAX_COORDINATOR_ADDRESS=sums-slice-0-0.sums:29500 JAX_NUM_PROCESSES=4" in pod["containers"][0]["args"][0]
    assert made["spec"]["failurePolicy"]["maxRestarts"] > 0


def test_a_train_job_names_its_runtime_and_mounts_the_volume():
    made = yaml.safe_load(EVERY["trainjob, torch"]["trainjob.yaml"])["spec"]
    assert made["runtimeRef"]["name"] == "torch-distributed"
    assert (made["trainer"]["numNodes"], made["trainer"]["numProcPerNode"]) == (2, 8)
    assert made["trainer"]["resourcesPerNode"] == {"limits": {"nvidia.com/gpu": 8}}
    patch = made["runtimePatches"][0]["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"][0]
    pod = patch["template"]["spec"]["template"]["spec"]
    assert [mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]] == ["/shared/sums", "/dev/shm"]
    assert pod["volumes"][0] == {"name": "home", "persistentVolumeClaim": {"claimName": "shared"}}
    assert "numProcPerNode" not in yaml.safe_load(EVERY["trainjob, jax"]["trainjob.yaml"])["spec"]["trainer"]


@pytest.mark.parametrize(("launcher", "target", "more", "said"), [
    ("slurm", "h100", {"name": "My_Run"}, "--name cannot be My_Run"),
    ("slurm", "h100", {"remote_folder": "shared; rm -rf /"}, "--home"),
    ("slurm", "h100", {"remote_folder": "/a/../b"}, "--home"),
    ("slurm", "h100", {"remote_folder": "a"}, "--home cannot be a"),
    ("slurm", "h100", {"storage": "gs://a"}, "--for slurm does not take --storage"),
    ("slurm", "v5e-8", {}, "Slurm has no v5e-8: it does not lend TPUs"),
    ("slurm", "v5e", {"hosts": 2}, "--hosts"),
    ("slurm", "h999", {}, "--on h999"),
    ("kubernetes", "h100", {}, "--image"),
    ("kubernetes", "v3-8", {"image": "i"}, "has no slice v3-8"),
    ("kubernetes", "v5e-256x2", {"image": "i"}, "several slices"),
    ("skypilot", "h100", {"wheel": None}, "this package's wheel"),
    ("skypilot", "h100", {"storage": "my bucket"}, "--storage my bucket"),
    ("skypilot", "v5e-16", {}, "SkyPilot has no v5e-16"),
])
def test_a_wrong_request_is_refused_before_anything_is_planned(launcher, target, more, said, tmp_path, monkeypatch):
    monkeypatch.setattr("workings.runs.launch.plan_target", None)
    if launcher == "skypilot":
        write_wheel(tmp_path / WHEEL.name)
        more = {"wheel": tmp_path / WHEEL.name} | more
    with pytest.raises(RequestError, match=said):
        launch(load_recipe("smoke-tiny"), LaunchRequest(launcher=launcher, target=target, **{
            "remote_folder": "/a", **more}), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_engine_of_one_process_is_refused():
    with pytest.raises(RequestError, match="the engine tunix cannot be launched"):
        job_of(engine="tunix")


def test_machines_are_tried_from_the_smallest():
    def tried(on, **more):
        return [(target.name, target.devices, hosts, devices) for target, hosts, devices in candidates(
            LaunchRequest(launcher="kubernetes", target=on, remote_folder="/a", **more))]
    assert tried("v5e") == [("v5e-1", 1, 1, 1), ("v5e-4", 4, 1, 4), ("v5e-8", 8, 1, 8), ("v5e-16", 16, 4, 4),
                            ("v5e-256", 256, 64, 4)]
    assert tried("h100", cards=8)[:3] == [("h100", 8, 1, 8), ("h100", 16, 2, 8), ("h100", 32, 4, 8)]
    assert tried("h100", cards=4, hosts=3) == [("h100", 12, 3, 4)]


def test_the_folder_holds_all_that_the_other_machine_needs(tmp_path):
    items = tmp_path / "my items.jsonl"
    items.write_text('{"id": "a", "prompt": "1+1", "answer": "2"}\n')
    loaded = load_recipe("smoke-tiny", ["engine=jax", "device=cpu", f"evaluation.items={items}"])
    asked = LaunchRequest(launcher="slurm", target="cpu", remote_folder="/shared/tiny", hosts=2)
    made = launch(loaded, asked, tmp_path / "out")
    assert made.files == ("data/evaluation-items.jsonl", "job.sbatch", "plan.json", "recipe.yaml")
    again = load_recipe(str(tmp_path / "out/recipe.yaml"))
    assert again.path(again.recipe.evaluation.items).read_text() == items.read_text()
    assert again.recipe.device == "cpu"
    assert made.job.recipe_digest in (tmp_path / "out/job.sbatch").read_text()
    assert json.loads((tmp_path / "out/plan.json").read_text())["fits"]
    assert "evaluation.items: /shared/tiny/data/evaluation-items.jsonl, copied from here" in made.job.file_notes
    assert made.start == "sbatch job.sbatch"
    assert "Planned for one process: with mesh auto, 2 processes take 2 times these rows." in made.job.plan
    with pytest.raises(RequestError, match="already exists"):
        launch(loaded, asked, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["my items.jsonl", "out"]


def test_a_teacher_of_this_machine_is_refused(tmp_path):
    (tmp_path / "teacher").mkdir()
    recipe = load_recipe("smoke-tiny", ["algorithm={name: distill_traces, teacher: teacher}"]).recipe
    loaded = SimpleNamespace(recipe=recipe, origin="r.yaml", path=lambda name: tmp_path / name)
    with pytest.raises(RequestError, match=r"algorithm\.teacher is teacher, a folder of this machine"):
        write_recipe(loaded, "gpu", tmp_path, "/shared")


def test_a_recipe_that_fits_nowhere_is_refused_with_what_was_tried(tmp_path, monkeypatch):
    verdict = SimpleNamespace(fits=False, marginal=False, peak_bytes=100 * 2**30, limit_bytes=80 * 2**30)
    monkeypatch.setattr("workings.runs.launch.plan_target", lambda *what, **more: SimpleNamespace(verdict=verdict))
    asked = LaunchRequest(launcher="slurm", target="h100", remote_folder="/shared/tiny", cards=8)
    with pytest.raises(RequestError, match=r"1 x 8 x h100: 100\.00 GiB of 80\.00 GiB.*16 x 8 x h100"):
        launch(load_recipe("smoke-tiny"), asked, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_the_record_says_what_started_it_and_no_values(monkeypatch):
    assert "absent" in launcher()["said"]
    monkeypatch.setenv("WORKINGS_LAUNCHER", "slurm")
    monkeypatch.setenv("SLURM_JOB_ID", "12345")
    assert launcher() == {"said": "slurm", "variables_seen": ["SLURM_JOB_ID"]}
    assert "SLURM_JOB_ID" in LAUNCHER_VARIABLES


def test_a_rented_machine_installs_the_wheel_beside_its_task_and_what_reads_a_bucket(tmp_path):
    wheel, there = tmp_path / WHEEL.name, tmp_path / "there"
    write_wheel(wheel)
    loaded = load_recipe("smoke-tiny", ["engine=jax", "device=cpu", "data.traces=gs://bucket/traces.jsonl"])
    asked = LaunchRequest(launcher="skypilot", target="cpu", remote_folder=str(there), wheel=wheel)
    made = launch(loaded, asked, there)
    assert "data.traces: gs://bucket/traces.jsonl, the same name on both machines" in made.job.file_notes
    assert load_recipe(str(there / "recipe.yaml")).recipe.data.traces == "gs://bucket/traces.jsonl"
    setup = yaml.safe_load((there / "task.yaml").read_text())["setup"]
    assert f"'./{WHEEL.name}[jax,stores]'" in setup
    # Without its last line, which installs.
    check = "\n".join(setup.splitlines()[:-1])
    assert subprocess.run(["sh", "-c", check], check=False).returncode == 0
    (there / WHEEL.name).write_bytes(b"another wheel")
    assert subprocess.run(["sh", "-c", check], check=False).returncode != 0
