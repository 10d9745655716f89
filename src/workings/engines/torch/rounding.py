"""Rounding of float32 updates to weights stored in bfloat16, as in `engines/jax/step.py` with other noise.

The noise comes from one generator per tensor and step, seeded from the run's seed, so that a resumed run draws the same
numbers. JAX's and PyTorch's generators differ: a run that changes engines keeps the mean of its rounding, not its bits.
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
    """``x`` (float32) rounded up or down to bfloat16 at random, its mean kept.

    The lower 16 bits of a float32 are the fraction that bfloat16 lacks: adding a uniform 16-bit number carries into
    the upper half with exactly that probability. Values that are not finite stay what they are.
    """
    noise = torch.randint(0, 2**16, x.shape, generator=generator, device=x.device, dtype=torch.int32)
    # The mask clears the lower half, so the cast to bfloat16 below is exact.
    # A carry into the exponent gives the next power of two, as it should.
    upper = (x.view(torch.int32) + noise) & -(2**16)
    return torch.where(torch.isfinite(x), upper.view(torch.float32), x).to(torch.bfloat16)
