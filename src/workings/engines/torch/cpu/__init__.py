"""What only a CPU gains, behind `optimize_for_cpu` (`memory.cpu_optimizations`).

Attention over each segment of packed rows alone, attention of short rows by plain products, what rows begin with
computed once where they begin alike, and completions in micro batches of like length
(`workings.engines.length_bucketing`).
"""

from workings.engines.torch.attention import FindAttentionLayout
from workings.engines.torch.cpu.segments import find_segments
from workings.engines.torch.cpu.short_rows import NAME


def optimize_for_cpu(asked: str, attention: str) -> tuple[str, FindAttentionLayout]:
    """Attention as a CPU computes it faster: equal numbers but for the order of sums.

    Args:
        asked: `memory.attention`; a function that was asked for by name stays.
        attention: key of `attention.FUNCTIONS` that was chosen for it.

    Returns:
        The key of the function, and how packed rows are arranged for it.
    """
    return NAME if asked == "auto" and attention == "fused" else attention, find_segments
