"""A batch script for Slurm: torchrun on every host, or one process of JAX a host.

The words are those of `sbatch` and `srun`; the variables are those that they set (SLURM_JOB_NODELIST, SLURM_NTASKS,
SLURM_PROCID).
"""

from workings.launching.job import PORT, SECONDS_TO_SAVE, LaunchJob

JOB_FILE = "job.sbatch"
START_COMMAND = "sbatch"
"""Command in front of the file's name."""


def files(job: LaunchJob) -> dict[str, str]:
    """The script by its name."""
    cards = [f"#SBATCH --gpus-per-node={job.devices}"] if job.platform == "gpu" else []
    lines = [
        "#!/bin/bash",
        *job.head(f"{START_COMMAND} {JOB_FILE}"),
        "# Add what your cluster wants (--account, --partition), and load what `workings` is installed in.",
        f"#SBATCH --job-name={job.name}",
        f"#SBATCH --nodes={job.hosts}",
        "#SBATCH --ntasks-per-node=1",
        *cards,
        "#SBATCH --exclusive",
        "#SBATCH --time=24:00:00",
        # Without `B:` Slurm sends it to the steps, which is where `workings` runs, and not to the batch shell.
        f"#SBATCH --signal=TERM@{SECONDS_TO_SAVE}",
        "#SBATCH --requeue",
        # A job that is put into the queue again would begin its log anew.
        "#SBATCH --open-mode=append",
        f"#SBATCH --output={job.name}-%j.log",
        *job.train("slurm"),
        # sed reads to the end; `head` would close the pipe, of which pipefail makes an error.
        'first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed -n 1p)',
        "status=0",
        *(_torchrun(job) if job.process_per_device else _one_a_host(job)),
        # A run that was stopped by the time limit goes back into the queue. Its exit code is 130; torchrun has 1 for
        # everything, so there the seal is asked.
        f"""if [ "$status" = 130 ] || grep -qs '"status": *"interrupted"' {job.run}/SEAL.json; then""",
        '    scontrol requeue "$SLURM_JOB_ID"',
        "fi",
        'exit "$status"',
    ]
    return {JOB_FILE: "\n".join(lines) + "\n"}


def _torchrun(job: LaunchJob) -> list[str]:
    """One torchrun a host, which starts a process a card."""
    return [
        "srun --kill-on-bad-exit=1 \\",
        f'    torchrun --nnodes "$SLURM_JOB_NUM_NODES" --nproc-per-node {job.devices} --max-restarts 0 \\',
        f'    --rdzv-id "$SLURM_JOB_ID" --rdzv-backend c10d --rdzv-endpoint "$first:{PORT}" \\',
        f"    -m workings {job.command} || status=$?",
    ]


def _one_a_host(job: LaunchJob) -> list[str]:
    """One process a host, with all its cards."""
    return [
        f'export JAX_COORDINATOR_ADDRESS="$first:{PORT}" JAX_NUM_PROCESSES="$SLURM_NTASKS"',
        "# Each task has its own number.",
        "srun --kill-on-bad-exit=1 bash -c 'JAX_PROCESS_ID=$SLURM_PROCID exec workings \"$@\"' workings \\",
        f"    {job.command} || status=$?",
    ]
