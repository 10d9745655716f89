# What `workings launch --for kubernetes --image …`, or a node of a cluster, starts: this package with one engine.
#
#   make dist
#   docker build --build-arg EXTRA=torch -t registry/workings:1 .
#
# EXTRA: torch (cards and CPUs), cuda (JAX on cards), tpu, jax (JAX on CPUs); with object stores torch,stores. CUDA's
# libraries come with torch and cuda; of the host only NVIDIA's driver is used. `docker run` needs --gpus all --shm-size 16g: NCCL's processes share memory
# in /dev/shm, and 64 MiB, the default, are too few.
FROM python:3.11-slim
ARG EXTRA=torch
WORKDIR /opt/workings
COPY dist/*.whl constraints.txt ./
RUN python -m pip install --no-cache-dir -c constraints.txt "$(ls ./*.whl)[${EXTRA}]"
RUN workings --version && if echo "$EXTRA" | grep -q torch; then torchrun --help > /dev/null; fi
