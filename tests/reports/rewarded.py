"""A small sealed run that says it learned from rewards: rollouts, prompts and lines by the library, nothing trained.

Each rollout has the three prompts of `ITEMS` in turn from the data, two completions of each. The first prompt's are
both wrong, the second's one of each, the third's both right.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tests.record import synthetic
from workings.data.batches import Position
from workings.engines.base import Completion
from workings.record.layout import PROMPTS, REWARDS, rollout_file
from workings.record.writer import RunWriter
from workings.rollouts.prompts import Prompt, PromptSet
from workings.rollouts.rollout import Group, Rollout, Sample, mismatch, rollout_metrics
from workings.rollouts.rollout_json import to_json
from workings.scoring.items import Item
from workings.ways.rewards import DrGrpo

STEPS = 3
ALGORITHM = DrGrpo(name="dr_grpo", group=2, max_new_tokens=400)
RIGHT = {"hard": (0, 0), "mixed": (1, 0), "easy": (1, 1)}
ITEMS = tuple(Item(id=name, prompt=f"What is {n}+{n}?", expected_answer=str(2 * n))
              for n, name in enumerate(RIGHT, start=20))
WEIGHTS = {"answer": 1.0, "length": 0.5}
ATTACK = "</pre><script>alert(1)</script><img src=x onerror=alert(1)>{{ 7*7 }}\u202e\x1b[31m<end_of_turn>"
SHOWN = ATTACK.replace("\u202e", "⟨U+202E⟩").replace("\x1b", "⟨U+001B⟩")


def prompts(asked: Sequence[Item] = ITEMS) -> list[Prompt]:
    """With tokens of the synthetic run's tokenizer."""
    return [Prompt(item, tuple(synthetic.template().prompt_ids(item.prompt))) for item in asked]


def rollout(step: int, texts: Sequence[str] = (), asked: Sequence[Item] = ITEMS) -> Rollout:
    """What was sampled before an update; completions say ``texts`` in turn, and the last one is cut off."""
    groups = []
    for number, prompt in enumerate(prompts(asked)):
        samples = []
        for place, right in enumerate(RIGHT.get(prompt.item.id, (1, 0))):
            said = texts[(2 * number + place) % len(texts)] if texts else f"{prompt.item.id} {step} {right}"
            last = number == len(asked) - 1 and place == 1
            tokens = synthetic.tokenizer().encode(said)
            drawn = len(tokens) + (not last)
            parts = {"answer": float(right), "length": -0.25}
            samples.append(Sample(
                seed=7 * step + place, rewards=parts, advantage=0.0,
                reward=sum(WEIGHTS[name] * value for name, value in parts.items()),
                completion=Completion(tokens=tokens, finish_reason="length" if last else "stop",
                                      stop_token=None if last else synthetic.tokenizer().eos_id,
                                      log_probs=[-0.5] * drawn)))
        worth = ALGORITHM.advantages([sample.reward for sample in samples])
        groups.append(Group(prompt=prompt, epoch=step - 1, samples=tuple(
            Sample(seed=sample.seed, completion=sample.completion, rewards=sample.rewards, reward=sample.reward,
                   advantage=advantage) for sample, advantage in zip(samples, worth, strict=True))))
    made = Rollout(step=step, position=Position(step - 1, 0), after=Position(step, 0), groups=tuple(groups))
    return Rollout(step=made.step, position=made.position, after=made.after, groups=made.groups,
                   trainer_log_probs=tuple(np.full(len(sample.tokens_with_stop), -0.5, np.float32) * (1 + 1e-6 * step)
                                           for _, sample in made.trained_samples))


def rewarded_run(final: Path, texts: Sequence[str] = (), asked: Sequence[Item] = ITEMS) -> Path:
    """A sealed run of three updates, a rollout each."""
    writer = RunWriter.create(final)
    synthetic.begin(writer)
    (writer.path("data/rows.jsonl")).unlink()
    config = synthetic.CONFIG | {
        "algorithm": ALGORITHM.model_dump(), "rewards": [
            {"scorer": name, "weight": weight} for name, weight in WEIGHTS.items()]}
    writer.write_json("config/resolved.json", config)
    writer.write_json(REWARDS, [{"name": name, "weight": weight, "version": "1", "parameters": {}}
                                for name, weight in WEIGHTS.items()])
    writer.write_cleaned(PROMPTS, PromptSet(tuple(prompts(asked)), (), 7).index_bytes)
    for step in range(1, STEPS + 1):
        drawn = rollout(step, texts, asked)
        writer.write_json(rollout_file(step), to_json(drawn))
        writer.metric(synthetic.steps()[step - 1] | rollout_metrics(drawn, list(WEIGHTS))
                      | mismatch(drawn) | {"clip_fraction": 0.0, "entropy": 0.5 / step, "kl_behavior": 0.0,
                                                      "drawing_seconds": 0.004})
    synthetic.save(writer, STEPS)
    writer.write_json("config/resolved.json", config)
    synthetic.finish(writer)
    return final


