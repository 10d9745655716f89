"""Optimizations for a CPU, which GPUs do not need (`memory.cpu_optimizations`).

Attention within each segment of packed rows (`find_segments`), prefix sharing (`workings.engines.prefix_sharing`), and
micro batches of completions of similar length (`workings.engines.length_bucketing`).
"""
