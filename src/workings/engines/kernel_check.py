"""A small matrix product on each device, which shows that the device computes correctly."""

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from workings.errors import DeviceError, first_line

FORMATS: dict[str, Any] = {"fp32": np.float32, "bf16": ml_dtypes.bfloat16, "fp16": np.float16}


def check_products(devices: Sequence[Any], dtype: str,
                   multiply: Callable[[np.ndarray, np.ndarray, Any], np.ndarray]) -> dict[str, Any]:
    """Multiply two matrices on every device by ``multiply(left, right, device)``, and compare with the product in fp64.

    ``dtype``: a key of `FORMATS`. Raises `DeviceError` if a device fails, such as with libraries for another chip.
    """
    left = np.linspace(-1.0, 1.0, 128 * 64, dtype=np.float32).reshape(128, 64).astype(FORMATS[dtype])
    right = np.linspace(1.0, -0.5, 64 * 32, dtype=np.float32).reshape(64, 32).astype(FORMATS[dtype])
    # From the rounded factors, so that the difference is the device's own error.
    expected = left.astype(np.float64) @ right.astype(np.float64)
    # Rounding to bfloat16 changes a number by at most 2 ** -8 of its size; twice that is allowed.
    allowed = 2**-7 * float(np.max(np.abs(expected))) if dtype == "bf16" else 1e-3
    worst = 0.0
    for device in devices:
        try:
            difference = float(np.max(np.abs(multiply(left, right, device).astype(np.float64) - expected)))
        except RuntimeError as error:
            raise DeviceError(f"a 128 x 64 x 32 matrix product in {dtype} on {device} failed: {first_line(error)}",
                              "a device that runs kernels", "workings doctor") from error
        if not difference < allowed:  # also true for NaN
            raise DeviceError(f"a matrix product in {dtype} on {device} is off by {difference:g}",
                              f"an error below {allowed:g}", "workings doctor")
        worst = max(worst, difference)
    return {"kernel": f"matmul 128x64x32 {dtype}", "devices": [str(device) for device in devices],
            "max_difference_to_numpy": worst}
