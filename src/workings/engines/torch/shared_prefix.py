"""What begins every row alike is computed once: the rows' first tokens see nothing but each other.

Everything but attention takes one token at a time, so a micro batch can be one row of its different tokens: the shared
prefix, then what follows it in each row. Attention alone wants rows.

Shape suffixes: B rows, S positions of a row, P of the prefix, N = P + B (S - P) different tokens, K heads, H head size.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class SharedPrefix:
    """Rows ``[B, S]`` and what differs of them, ``[1, N]``."""

    size: int
    """B."""
    prefix: int
    """P."""

    def of_rows(self, x_BS: np.ndarray) -> np.ndarray:
        """``[1, N]``: the first row's prefix stands for everyone's."""
        return np.concatenate([x_BS[0, :self.prefix], x_BS[:, self.prefix:].reshape(-1)])[None]

    def apart(self, x_1KNH: Tensor) -> Tensor:
        """``[B, K, S, H]``: the rows again, each with the prefix before it."""
        heads, head = x_1KNH.shape[1], x_1KNH.shape[3]
        flat = x_1KNH.transpose(1, 2).squeeze(0)
        first, rest = flat.split([self.prefix, flat.shape[0] - self.prefix])  # its derivative is one operation
        rows = torch.cat([first.expand(self.size, -1, -1, -1), rest.view(self.size, -1, heads, head)], 1)
        return rows.transpose(1, 2)

    def together(self, x_BKSH: Tensor, rows: int) -> Tensor:
        """``[1, K, N, H]``; ``rows`` is 1."""
        first, rest = x_BKSH.transpose(1, 2).split([self.prefix, x_BKSH.shape[2] - self.prefix], 1)
        flat = torch.cat([first[0], rest.flatten(0, 1)])
        return flat.transpose(0, 1)[None]
