"""The very scripts that `launch` writes, run here by two processes with the variables that each launcher sets."""

import json
import os
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from tests.launching.making import WHEEL, write_wheel
from workings.cli.main import app
from workings.config.load import load_recipe
from workings.evidence.verify import verify
from workings.launching.files import PORT, kubernetes
from workings.record.reader import RunRecord
from workings.runs.launch import LaunchRequest, launch

SRUN = """#!/bin/bash
# As Slurm does it on two hosts: the command once a task, with the task's own number.
[ "$1" = --kill-on-bad-exit=1 ] && shift
for task in 0 1; do SLURM_PROCID=$task SLURM_LOCALID=0 "$@" & done
wait -n && wait -n
"""


@pytest.fixture
def machines(tmp_path, child_environment):
    """An environment with `workings`, and the commands that Slurm brings, on the path."""
    commands = tmp_path / "commands"
    commands.mkdir()
    texts = {"scontrol": "#!/bin/sh\necho 127.0.0.1\nseq 20000\n", "srun": SRUN}
    for name, text in texts.items():
        (commands / name).write_text(text)
        (commands / name).chmod(0o755)
    # torchrun is next to the interpreter.
    path = os.pathsep.join([str(commands), str(Path(sys.executable).parent), os.environ["PATH"]])
    return child_environment(PATH=path, OMP_NUM_THREADS="1")


def written(tmp_path, launcher, engine):
    """The folder that `launch` writes for two hosts like this machine, lying where it says."""
    home = tmp_path / "home"
    loaded = load_recipe("smoke-tiny", [f"engine={engine}", "device=cpu", "model.shape.layers=1",
                                        "evaluation={traces: none}"])
    wheel = tmp_path / WHEEL.name
    write_wheel(wheel)  # installed by the setup of a rented machine, which is not run here
    asked = LaunchRequest(launcher=launcher, target="cpu", remote_folder=str(home), hosts=2,
                          image="image" if launcher == "kubernetes" else "",
                          wheel=wheel if launcher == "skypilot" else None)
    return home, launch(loaded, asked, home).job


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def check(home, job, said):
    """The record of a run of two processes that knows its launcher, and has the digest that was foretold."""
    run = home / "runs" / "smoke-tiny"
    manifest = RunRecord.open(run).manifest
    assert (manifest.status, manifest.device.processes) == ("complete", 2)
    assert manifest.config_digest == job.recipe_digest
    assert json.loads((run / "env/env_info.json").read_text())["launcher"]["said"] == said
    assert [each.id for each in verify(run).checks if each.verdict == "failed"] == []


@pytest.mark.parametrize("engine", ["jax", pytest.param("torch", marks=pytest.mark.full)])
def test_by_the_batch_script_of_slurm_which_may_be_started_again(tmp_path, machines, engine):
    home, job = written(tmp_path, "slurm", engine)
    script = (home / "job.sbatch").read_text().replace(str(PORT), free_port())
    environment = machines | {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "host-[0-1]", "SLURM_NTASKS": "2",
                              "SLURM_JOB_NUM_NODES": "2"}
    done = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    check(home, job, "slurm")
    # Complete: started again, it has nothing to do.
    before = (home / "runs/smoke-tiny/SEAL.json").read_bytes()
    again = CliRunner().invoke(app, ["train", str(home / "recipe.yaml"), "--out", str(home / "runs/smoke-tiny"),
                                     "--auto-resume"])
    assert (again.exit_code, "is complete and evaluated: nothing is left to do" in again.output) == (0, True)
    assert (home / "runs/smoke-tiny/SEAL.json").read_bytes() == before


def kubernetes_script(home, job):
    return yaml.safe_load((home / "trainjob.yaml").read_text())["spec"]["trainer"]["args"][0]


def slice_script(home, job):
    """What the pods of a slice run, for the recipe that is here."""
    of_a_slice = replace(job, platform="tpu", target="v5e-16", topology="4x4")
    made = yaml.safe_load(kubernetes(of_a_slice, image="i", claim="c")["jobset.yaml"])
    pod = made["spec"]["replicatedJobs"][0]["template"]["spec"]
    script = pod["template"]["spec"]["containers"][0]["args"][0]
    # The name that the first pod has in the cluster.
    return script.replace("smoke-tiny-slice-0-0.smoke-tiny", "127.0.0.1")


def task_script(home, job):
    return yaml.safe_load((home / "task.yaml").read_text())["run"]


CASES = {
    "kubernetes-trainjob": ("kubernetes", "jax", kubernetes_script, lambda index, port: {
        "JAX_COORDINATOR_ADDRESS": f"127.0.0.1:{port}", "JAX_NUM_PROCESSES": "2", "JAX_PROCESS_ID": index}),
    "kubernetes-trainjob of torch": ("kubernetes", "torch", kubernetes_script, lambda index, port: {
        "PET_NNODES": "2", "PET_NPROC_PER_NODE": "1", "PET_NODE_RANK": index, "PET_MASTER_ADDR": "127.0.0.1",
        "PET_MASTER_PORT": port}),
    "kubernetes-jobset": ("kubernetes", "jax", slice_script, lambda index, port: {"JOB_COMPLETION_INDEX": index}),
    "skypilot": ("skypilot", "jax", task_script, lambda index, port: {
        "SKYPILOT_NODE_IPS": "127.0.0.1\n127.0.0.2", "SKYPILOT_NUM_NODES": "2", "SKYPILOT_NODE_RANK": index}),
    "skypilot of torch": ("skypilot", "torch", task_script, lambda index, port: {
        "SKYPILOT_NODE_IPS": "127.0.0.1\n127.0.0.2", "SKYPILOT_NUM_NODES": "2", "SKYPILOT_NODE_RANK": index}),
}


@pytest.mark.full
@pytest.mark.parametrize("case", CASES)
def test_by_the_variables_of_a_launcher(tmp_path, machines, case):
    launcher, engine, script_of, variables = CASES[case]
    home, job = written(tmp_path, launcher, engine)
    port = free_port()
    script = script_of(home, job).replace(str(PORT), port)
    hosts = [subprocess.Popen(["bash", "-c", script], env=machines | variables(index, port), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) for index in "01"]
    said = [host.communicate()[1] for host in hosts]
    assert [host.returncode for host in hosts] == [0, 0], said
    check(home, job, case.partition(" of ")[0])
