"""Objects for Kubernetes: Kubeflow Trainer's `TrainJob` for cards and CPUs, a `JobSet` for a TPU slice.

`TrainJob` (trainer.kubeflow.org/v1alpha1) runs on the runtimes `torch-distributed` and `jax-distributed`: the first
sets what torchrun reads (PET_NNODES, PET_NPROC_PER_NODE, PET_NODE_RANK, PET_MASTER_ADDR, PET_MASTER_PORT), the second
the three variables that `train` reads. A `JobSet` (jobset.x-k8s.io/v1alpha2) sets none of them; its script does.
"""

from dataclasses import dataclass
from typing import Any

from workings.errors import RequestError
from workings.launching.job import MAX_RESTARTS, PORT, SECONDS_TO_SAVE, LaunchJob, as_yaml, names

TRAIN_JOB, JOB_SET = "trainjob.yaml", "jobset.yaml"
START_COMMAND = "kubectl create -f"
"""Command in front of the file's name."""
MANAGER_LABEL = "workings.dev/launch"
VOLUME, POOL = "home", "slice"
EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
NODE_POOL = "cloud.google.com/gke-nodepool"


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """Settings of a cluster."""

    image: str
    """Container image in which `workings` is installed with the engine."""
    claim: str
    """PersistentVolumeClaim that all pods mount at `LaunchJob.home`."""


def files(job: LaunchJob, cluster: Cluster) -> dict[str, str]:
    """The object by its file's name."""
    if not cluster.image:
        raise RequestError("--for kubernetes without --image", "the image in which workings is installed",
                           "--image registry/name:tag")
    name, manifest = (JOB_SET, job_set(job, cluster)) if job.platform == "tpu" else (TRAIN_JOB, train_job(job, cluster))
    head = job.head(f"{START_COMMAND} {name}")
    head.append(f"# Volume:   the claim {cluster.claim} (ReadWriteMany), mounted at {job.remote_folder}.")
    return {name: as_yaml(head, manifest)}


def train_job(job: LaunchJob, cluster: Cluster) -> dict[str, Any]:
    """A `TrainJob`."""
    program = "torchrun --max-restarts 0 -m workings" if job.process_per_device else "workings"
    trainer: dict[str, Any] = {
        "image": cluster.image, "numNodes": job.hosts, "command": ["bash", "-c"],
        "args": [_script(job, "kubernetes-trainjob", [f"exec {program} {job.command}"])]}
    # The trainer hands it to torchrun by its environment (PET_NPROC_PER_NODE).
    if job.process_per_device:
        trainer["numProcPerNode"] = job.devices
    if job.platform == "gpu":
        trainer["resourcesPerNode"] = {"limits": {"nvidia.com/gpu": job.devices}}
    pod = {"terminationGracePeriodSeconds": SECONDS_TO_SAVE, "volumes": [_volume(cluster)],
           "containers": [{"name": "node", "volumeMounts": [_mount(job)]}]}
    node = {"name": "node", "template": {"spec": {"template": {"spec": pod}}}}
    patch = {"template": {"spec": {"replicatedJobs": [node]}}}
    return {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": _metadata(job),
            "spec": {"runtimeRef": {"apiGroup": "trainer.kubeflow.org", "kind": "ClusterTrainingRuntime",
                                    "name": job.runtime},
                     "trainer": trainer, "runtimePatches": [{"manager": MANAGER_LABEL, "trainingRuntimeSpec": patch}]}}


def job_set(job: LaunchJob, cluster: Cluster) -> dict[str, Any]:
    """A `JobSet` whose one job is a TPU slice: a pod a host, all of them restarted together."""
    # JobSet gives the first pod this name in its headless service.
    first = f"{job.name}-{POOL}-0-0.{job.name}"
    script = _script(job, "kubernetes-jobset", [
        f"export JAX_COORDINATOR_ADDRESS={first}:{PORT} JAX_NUM_PROCESSES={job.hosts}",
        # Set by Kubernetes in each pod of an indexed job, which JobSet's are.
        "export JAX_PROCESS_ID=$JOB_COMPLETION_INDEX",
        f"exec workings {job.command}"])
    container = {"name": "workings", "image": cluster.image, "command": ["bash", "-c"], "args": [script],
                 "ports": [{"containerPort": PORT}], "volumeMounts": [_mount(job)],
                 "resources": {"requests": {"google.com/tpu": job.devices}, "limits": {"google.com/tpu": job.devices}}}
    # A pod that came back alone would wait for the others, so JobSet restarts all. From SIGTERM to SIGKILL there are 30
    # seconds unless told otherwise, which may be too few for a checkpoint.
    pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": SECONDS_TO_SAVE,
           "nodeSelector": {"cloud.google.com/gke-tpu-accelerator": accelerator(job.target),
                            "cloud.google.com/gke-tpu-topology": job.topology},
           "containers": [container], "volumes": [_volume(cluster)]}
    metadata = _metadata(job)
    # A slice is one node pool: no other job gets onto it, and no host of another pool joins.
    metadata["annotations"][EXCLUSIVE] = NODE_POOL
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata,
            "spec": {"failurePolicy": {"maxRestarts": MAX_RESTARTS}, "replicatedJobs": [{
                "name": POOL, "replicas": 1,
                "template": {"spec": {"parallelism": job.hosts, "completions": job.hosts, "backoffLimit": 0,
                                      "template": {"spec": pod}}}}]}}


def accelerator(target: str) -> str:
    """Google Kubernetes Engine's name of a TPU. Raises `RequestError` for one that it does not offer as a slice."""
    rows = names("kubernetes")
    if (family := target.rsplit("-", 1)[0]) not in rows:
        raise RequestError(f"--for kubernetes --on {target}", "a TPU that Google Kubernetes Engine has slices of: "
                           + ", ".join(rows), "--on v5e-8")
    return rows[family]


def _script(job: LaunchJob, launcher: str, last: list[str]) -> str:
    return "\n".join([*job.train(launcher), *last]) + "\n"


def _metadata(job: LaunchJob) -> dict[str, Any]:
    return {"name": job.name, "annotations": {"workings/recipe-sha256": job.recipe_digest, "workings/plan": job.plan}}


def _volume(cluster: Cluster) -> dict[str, Any]:
    return {"name": VOLUME, "persistentVolumeClaim": {"claimName": cluster.claim}}


def _mount(job: LaunchJob) -> dict[str, Any]:
    return {"name": VOLUME, "mountPath": job.remote_folder}
