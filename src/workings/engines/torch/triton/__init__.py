"""Triton kernels for NVIDIA GPUs, which replace chains of PyTorch operations.

A chain such as a norm's reads and writes its tensors ten times, once for each operation, and a card's time goes into
that and not into arithmetic. Each function here has a plain version next to its kernel, which says what is computed:
`check` holds the two against each other before a card uses the kernels, and a trace of a card that is not here (fake
tensors) takes the memory of the results and computes nothing.
"""
