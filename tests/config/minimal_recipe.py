"""The shortest recipe that can be checked, as text and as values."""

from workings.config.yaml_reader import parse_yaml

MINIMAL = """
name: tiny
model: {source: scratch, shape: {layers: 1, width: 8, mlp_width: 8, heads: 1, kv_heads: 1, head_dim: 8}}
data: {traces: traces.jsonl, max_length: 32}
batch: {micro_batch: 2}
training: {steps: 3, learning_rate: 1e-3}
optimizer: {name: adamw}
"""


def values(**changes):
    """The shortest recipe's values, some of them changed."""
    return parse_yaml(MINIMAL, "test") | changes
