"""The recipe that the tests of several processes train."""

RECIPE = """# as small as a transformer with sliding layers can be
name: together
seed: 17
engine: torch
device: cpu
model:
  source: scratch
  shape: {family: gemma3, layers: 2, width: 16, mlp_width: 16, heads: 1, kv_heads: 1, head_dim: 8}
tokenizer: train
data: {traces: traces.jsonl, template: gemma, reasoning: tags, max_length: 64}
batch: {micro_batch: 1, accumulation: 2}
training: {steps: 24, learning_rate: 1e-3, schedule: cosine}
optimizer: {name: adamw, clip_norm: 1.0}
checkpoint: {every_steps: 20, keep_last: 1}
evaluation: {traces: held_out.jsonl, items: items.jsonl, every_steps: 3, samples: 1, max_new_tokens: 2, batch_size: 8}
"""
