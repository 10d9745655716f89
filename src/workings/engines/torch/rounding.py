"""Stochastic rounding of float32 weights to bfloat16, and random generators that a resumed run can repeat.

`engines/jax/step.py` rounds in the same way, with other random numbers.
"""

from hashlib import sha256

import torch

MASTER = "master"
"""Slot of the float32 copy of the weights in the optimizer state."""


def tensor_generator(seed: int, name: str, device: torch.device | str = "cpu") -> torch.Generator:
    """A separate generator for one tensor, seeded from the run's seed and the tensor's name."""
    number = int.from_bytes(sha256(f"{seed}|{name}".encode()).digest()[:8], "big") >> 1
    return torch.Generator(device=device).manual_seed(number)


def stochastic_bfloat16(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """``x`` (float32) rounded up or down to bfloat16 at random, so that the expected value is ``x``.

    The lower 16 bits of a float32 are the fraction that bfloat16 lacks. Adding a uniform 16-bit number carries into the
    upper half with exactly that probability. Infinities and NaN do not change.
    """
    noise = torch.randint(0, 2**16, x.shape, generator=generator, device=x.device, dtype=torch.int32)
    upper = (x.view(torch.int32) + noise) & -(2**16)
    return torch.where(torch.isfinite(x), upper.view(torch.float32), x).to(torch.bfloat16)
