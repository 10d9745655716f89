"""What the errors of frameworks say, told without importing them: a lack of memory, and one line for a record."""

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


def first_line(error: BaseException) -> str:
    """Its first line, at most 300 characters; its type where it says nothing."""
    said = str(error).strip().splitlines()
    return said[0][:300] if said else type(error).__name__
