"""Describes the software and machine of a run. Only variables and packages of fixed lists are recorded."""

import os
import platform
import sys
from functools import cache
from importlib import metadata
from typing import Any

from workings.hardware import machine
from workings.record.redact import redact, without_home

VARIABLES = (
    "CUDA_VISIBLE_DEVICES", "GLIBC_TUNABLES", "JAX_DEFAULT_MATMUL_PRECISION", "JAX_ENABLE_X64", "JAX_PLATFORMS",
    "KAGGLE_KERNEL_RUN_TYPE", "LIBTPU_INIT_ARGS", "MKL_NUM_THREADS", "NPROC", "NUMEXPR_NUM_THREADS",
    "NVIDIA_TF32_OVERRIDE", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PYTHONHASHSEED", "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF", "TF_CPP_MIN_LOG_LEVEL", "TPU_ACCELERATOR_TYPE", "TPU_CHIPS_PER_HOST_BOUNDS",
    "VECLIB_MAXIMUM_THREADS", "XLA_FLAGS", "XLA_PYTHON_CLIENT_ALLOCATOR", "XLA_PYTHON_CLIENT_MEM_FRACTION",
    "XLA_PYTHON_CLIENT_PREALLOCATE")
"""Environment variables that change results, memory or speed and that hold no secrets."""
LAUNCHER = "WORKINGS_LAUNCHER"
"""Variable with which a file of `workings launch` names its launcher."""
LAUNCHER_VARIABLES = (
    "JAX_COORDINATOR_ADDRESS", "JOB_COMPLETION_INDEX", "JOBSET_NAME", "KUBERNETES_SERVICE_HOST",
    "OMPI_COMM_WORLD_SIZE", "PET_NNODES", "SKYPILOT_NODE_RANK", "SLURM_JOB_ID", "SLURM_STEP_NODELIST",
    "TORCHELASTIC_RUN_ID", "TPU_WORKER_HOSTNAMES")
"""Variables that launchers set. Only their presence is recorded: values name hosts and people."""
PACKAGES = (
    "accelerate", "bitsandbytes", "datasets", "flax", "google-tunix", "huggingface_hub", "jax", "jaxlib", "jinja2",
    "libtpu", "liger-kernel", "ml_dtypes", "numpy", "optax", "orbax-checkpoint", "peft", "pydantic", "qwix", "rfc8785",
    "safetensors", "scipy", "tokamax", "tokenizers", "torch", "transformers", "triton", "workings")
"""Packages that can change a result. Their versions are read from their metadata; none is imported."""


def collect() -> dict[str, Any]:
    """Python, system, machine, packages and environment variables, as JSON without nulls.

    No user name, host name, home path or token: values are read by allow-list and redacted.
    """
    return {
        "python": {"version": platform.python_version(), "implementation": platform.python_implementation(),
                   "compiler": platform.python_compiler()},
        "system": {"name": platform.system(), "release": platform.release(),
                   "libc": " ".join(platform.libc_ver()).strip() or {"absent": "not a GNU system"}},
        "machine": machine.describe(),
        "byte_order": sys.byteorder,
        "packages": {name: version for name in PACKAGES if (version := installed_version(name))},
        "launcher": launcher(),
        "variables": {name: without_home(redact(os.environ[name])) for name in VARIABLES if name in os.environ}}


def launcher() -> dict[str, Any]:
    """Launcher of this process according to its environment, unchecked."""
    name = os.environ.get(LAUNCHER, "")
    return {"said": redact(name)[:40] if name else {"absent": f"{LAUNCHER} is not set"},
            "variables_seen": [name for name in LAUNCHER_VARIABLES if name in os.environ]}


@cache
def installed_version(name: str) -> str:
    """Version of an installed package; empty where it is not installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""
