"""A job for a launcher, and one file of each kind that is written for it."""

import zipfile
from pathlib import Path

from workings.launching.files import LaunchJob, Wheel, kubernetes, skypilot, slurm

WHEEL = Wheel(name="workings-1.0-py3-none-any.whl", sha256="cd" * 32)
CLUSTER = {"image": "registry/workings:1", "claim": "shared"}


def write_wheel(path: Path) -> None:
    """An archive that is named like our wheel, and that nothing here installs."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("workings/__init__.py", "")


def job_of(**values):
    """A JAX job on two hosts of eight H100, some of it changed."""
    return LaunchJob(**{"name": "sums", "engine": "jax", "platform": "gpu", "target": "h100", "hosts": 2, "devices": 8,
                        "remote_folder": "/shared/sums", "recipe_digest": "ab" * 32,
                        "plan": "1 GiB of 79.1 GiB a device (traced).",
                        "file_notes": ("data.traces: data/traces.jsonl, copied from here",)} | values)


def every_file():
    """One file of each kind (`proof/launch_schemas.py` validates them with the published schemas)."""
    slice_ = job_of(platform="tpu", target="v5e-16", hosts=4, devices=4, topology="4x4")
    return {
        "slurm, jax": slurm(job_of()), "slurm, torch": slurm(job_of(engine="torch")),
        "trainjob, jax": kubernetes(job_of(), **CLUSTER),
        "trainjob, torch": kubernetes(job_of(engine="torch"), **CLUSTER),
        "trainjob, cpu": kubernetes(job_of(platform="cpu", target="cpu", devices=1), **CLUSTER),
        "jobset": kubernetes(slice_, **CLUSTER),
        "skypilot, jax": skypilot(job_of(), storage="gs://runs", wheel=WHEEL),
        "skypilot, torch": skypilot(job_of(engine="torch"), storage="", wheel=WHEEL),
        "skypilot, tpu": skypilot(
            job_of(platform="tpu", target="v5e-8", hosts=1, topology="2x4"), storage="s3://b/a", wheel=WHEEL)}


EVERY = every_file()
