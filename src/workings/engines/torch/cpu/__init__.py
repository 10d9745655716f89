"""Optimizations for a CPU, which GPUs do not need: `optimize_for_cpu` (`memory.cpu_optimizations`).

Attention within each segment of packed rows, attention of short rows by plain products, prefix sharing
(`workings.engines.prefix_sharing`), and micro batches of completions of similar length
(`workings.engines.length_bucketing`).
"""

from workings.engines.torch.attention import FindAttentionLayout
from workings.engines.torch.cpu.segments import find_segments
from workings.engines.torch.cpu.short_rows import NAME


def optimize_for_cpu(asked: str, attention: str) -> tuple[str, FindAttentionLayout]:
    """The faster attention for a CPU: equal numbers except for the order of sums.

    Args:
        asked: `memory.attention`; a function that is named there stays.
        attention: key of `attention.FUNCTIONS` that was chosen.

    Returns:
        The key of the function, and the arrangement of packed rows for it.
    """
    return NAME if asked == "auto" and attention == "fused" else attention, find_segments
