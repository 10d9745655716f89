"""Triton kernels for NVIDIA GPUs, which replace chains of PyTorch operations that read and write whole tensors.

`operations` has a plain version next to each kernel. `check` compares both before a GPU uses the kernels.
"""
