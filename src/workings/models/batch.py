"""What one optimizer step is given: rows of tokens as plain NumPy arrays, the same for every engine.

Shape suffixes: A accumulation (micro batches summed before one update), B rows of one micro batch over all
data-parallel devices, S positions, M positions picked of a row.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True, kw_only=True)
class Batch:
    """One step's rows. All arrays but ``picked`` are ``[A, B, S]``.

    ``targets[..., t]`` is the token that position ``t`` has to predict, that is the next token *of the same segment*;
    ``weights`` is 1.0 where that prediction counts in the loss and 0.0 elsewhere (prompt, padding, a segment's last
    position). Engines never shift anything themselves.
    """

    tokens: np.ndarray
    """int32: input token ids; padding is the tokenizer's pad id."""
    targets: np.ndarray
    """int32: token to predict at each position; 0 where ``weights`` is 0."""
    weights: np.ndarray
    """float32: 1.0 where the prediction is supervised."""
    positions: np.ndarray
    """int32: position within the segment, from 0 (rotary embeddings use it)."""
    segment_ids: np.ndarray
    """int32: 1, 2, … for the rows packed into a sequence, 0 for padding; attention stays within one id."""
    picked: np.ndarray | None = None
    """int32 ``[A, B, M]``: of each row every supervised position and others up to M; None: every one may be supervised.

    M is one number for all batches of a shape, because programs have fixed shapes.
    """
    shared_prefix: int = 0
    """P: the first positions, which hold the same tokens in every row that is not empty, and of which none counts.

    One number for all batches of a run.
    """

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays ``[A, B, S]`` by name."""
        return {name: x for name, x in vars(self).items() if name not in ("picked", "shared_prefix")}

    def picking(self, most: int) -> "Batch":
        """This batch with `picked` of ``most`` positions a row, or without where that is all of them.

        Raises:
            ValueError: a row has more supervised positions.
        """
        found = int(np.count_nonzero(self.weights, axis=-1).max(initial=0))
        if found > most:
            raise ValueError(f"a row with {found} supervised positions in a batch of at most {most}")
        if most >= self.tokens.shape[-1]:
            return replace(self, picked=None)
        order = np.argsort(self.weights == 0, axis=-1, kind="stable")
        return replace(self, picked=order[..., :most].astype(np.int32))

    def sharing(self, prefix: int) -> "Batch":
        """This batch with `shared_prefix`.

        Raises:
            ValueError: rows differ there, or a position counts in the loss.
        """
        first, real = self.tokens[:, :1, :prefix], self.segment_ids[..., :prefix] != 0
        if self.weights[..., :prefix].any() or ((self.tokens[..., :prefix] != first) & real).any():
            raise ValueError(f"rows that share no prefix of {prefix} positions without supervision")
        return replace(self, shared_prefix=prefix)

    @classmethod
    def of(cls, arrays: Mapping[str, np.ndarray]) -> "Batch":
        """The batch that has these `arrays`."""
        return cls(tokens=arrays["tokens"], targets=arrays["targets"], weights=arrays["weights"],
                   positions=arrays["positions"], segment_ids=arrays["segment_ids"])

    @classmethod
    def blank(cls, shape: tuple[int, int, int]) -> "Batch":
        """A batch of this shape (A, B, S) without contents: what a compiler needs to know."""
        whole = np.zeros(shape, np.int32)
        return cls(tokens=whole, targets=whole, weights=np.zeros(shape, np.float32), positions=whole,
                   segment_ids=whole)

    @property
    def supervised_tokens(self) -> int:
        """Number of supervised positions in the whole step."""
        return int(self.weights.sum(dtype=np.float64))

    @property
    def real_tokens(self) -> int:
        """Number of positions that are not padding."""
        return int((self.segment_ids != 0).sum())
