# The image for `workings launch --for kubernetes --image …` or a cluster node: this package with one engine.
#
#   make dist
#   docker build --build-arg EXTRA=torch -t registry/workings:1 .
#
# EXTRA: torch (cards and CPUs), cuda (JAX on cards), tpu, jax (JAX on CPUs); with object stores torch,stores. torch and
# cuda include CUDA's libraries; the host needs only NVIDIA's driver. `docker run` needs --gpus all --shm-size 16g: NCCL's
# processes share /dev/shm, and the default of 64 MiB is too small.
FROM python:3.11-slim
ARG EXTRA=torch
WORKDIR /opt/workings
COPY dist/*.whl constraints.txt ./
RUN python -m pip install --no-cache-dir -c constraints.txt "$(ls ./*.whl)[${EXTRA}]"
RUN workings --version && if echo "$EXTRA" | grep -q torch; then torchrun --help > /dev/null; fi
