"""Triton kernels for NVIDIA GPUs, each next to a plain version that says what is computed.

They replace chains of PyTorch operations that read and write whole tensors. `check` compares kernels and plain
versions before a card uses them.
"""
