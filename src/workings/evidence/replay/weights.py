"""Two checkpoints of the same step, tensor by tensor."""

from pathlib import Path

import numpy as np

from workings.engines.safetensors_file import TensorFile
from workings.evidence.replay.judge import LARGEST, Facts
from workings.record.digest import file_digest

OPTIMIZER = "optimizer"
"""Files whose names begin so hold the optimizer's state: compared to the bit, and reported; not judged by a tolerance,
because a moment near zero has no meaningful relative difference."""


def compare_weights(step: int, recorded: Path, replayed: Path) -> Facts:
    """How far the tensors of two checkpoint folders lie apart.

    Returns:
        `step`, `files_identical` and `files`, number of `tensors`, the `largest_difference` (norm of the difference
        over the norm of the recorded tensor) and the `tensor` that has it.
    """
    names = sorted(path.name for path in recorded.glob("*.safetensors"))
    same = sum((replayed / name).is_file() and file_digest(recorded / name) == file_digest(replayed / name)
               for name in names)
    largest, where, count = 0.0, "none", 0
    for name in (name for name in names if not name.startswith(OPTIMIZER)):
        one, other = TensorFile(recorded / name), TensorFile(replayed / name)
        for tensor in one.names():
            count += 1
            difference = _relative(one.read(tensor), other.read(tensor)) if tensor in other.names() else LARGEST
            if difference > largest:
                largest, where = difference, tensor
    return {"step": step, "files": len(names), "files_identical": int(same), "tensors": count,
            "largest_difference": largest, "tensor": where}


def _relative(recorded: np.ndarray, replayed: np.ndarray) -> float:
    if recorded.shape != replayed.shape or recorded.dtype != replayed.dtype:
        return LARGEST
    if recorded.tobytes() == replayed.tobytes():
        return 0.0
    one, other = recorded.astype(np.float64), replayed.astype(np.float64)
    norm, apart = float(np.linalg.norm(one)), float(np.linalg.norm(one - other))
    return min(LARGEST, apart / norm) if norm > 0 and np.isfinite(apart) else LARGEST
