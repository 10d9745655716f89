"""A recipe that learns from rewards with a tiny random model: enough for all but learning."""

from tests.runs.runs_helpers import write_recipe

RECIPE = """name: rewarded
seed: 5
engine: jax
device: cpu
model:
  source: scratch
  shape: {layers: 1, width: 16, mlp_width: 16, heads: 1, kv_heads: 1, head_dim: 16}
tokenizer: train
data: {traces: traces.jsonl, max_length: 64, buckets: [64], reasoning: tags}
algorithm: {name: grpo, group: 4, max_new_tokens: 16}
rewards: [{scorer: answer}, {scorer: form, weight: 0.5}, {scorer: my.py:vowels, weight: 0.1}]
batch: {micro_batch: 8}
training: {steps: 4, learning_rate: 1e-3, schedule: constant}
optimizer: {name: adamw}
checkpoint: {every_steps: 2}
evaluation: {items: items.jsonl, every_steps: 2, samples: 0, max_new_tokens: 4, batch_size: 8, base: false,
             items_during_training: 6}
"""
REWARDS = """
import random

CALLS = []

def vowels(prompts, completions, **columns):
    "Gives a random model's completions rewards that differ; the right answer has more of it than any probe."
    return [min(1.0, sum(text.count(x) for x in "aeiou") / 100) for text in completions]

def anywhere(prompts, completions, expected_answer, **columns):
    "Finds the answer wherever it is."
    return [float(right in text.split()) for text, right in zip(completions, expected_answer)]

def long(prompts, completions, **columns):
    return [len(text) / 1000 for text in completions]

def broken(prompts, completions, **columns):
    return None

def random_(prompts, completions, **columns):
    return [random.random() for _ in completions]

def counted(prompts, completions, **columns):
    CALLS.append(1)
    return [float(len(CALLS)) for _ in completions]

def hashed(prompts, completions, **columns):
    return [float(hash(text + "x") % 1000) for text in completions]
"""


def write(folder):
    """The recipe with its data and rewards with it."""
    path = write_recipe(folder, RECIPE)
    (folder / "my.py").write_text(REWARDS)
    return path
