"""Errors of frameworks, recognized by their text without importing them: out of memory, and a line for a record."""

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
    """The first line of an error's text, at most 300 characters; its type if the text is empty."""
    said = str(error).strip().splitlines()
    return said[0][:300] if said else type(error).__name__
