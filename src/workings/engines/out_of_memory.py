"""Is an error that came out of an engine a lack of memory? Told by what the libraries say, without importing them."""

SIGNS = (
    "RESOURCE_EXHAUSTED",  # XLA, on every platform
    "Out of memory allocating",  # XLA's CPU client
    "out of memory",  # PyTorch on CUDA, and CUDA itself
    "can't allocate memory",  # PyTorch's CPU allocator
    "std::bad_alloc",  # C++ in either
)
"""Words of `jax.errors.JaxRuntimeError`, `torch.OutOfMemoryError` and other runtime errors."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out, on the device or on the host."""
    if isinstance(error, MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in SIGNS)
