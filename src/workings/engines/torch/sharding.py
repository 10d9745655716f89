"""Several processes, one per card: rows split among them, parameters split by FSDP2."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mesh:
    """This process among those that share a step."""

    fsdp: int = 1
    rank: int = 0

    def rows(self, count: int) -> slice:
        """The rows of a micro batch of ``count`` that this process computes."""
        own = count // self.fsdp
        return slice(self.rank * own, (self.rank + 1) * own)
