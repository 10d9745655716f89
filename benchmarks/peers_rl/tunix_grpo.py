"""Tunix's GRPO learner as one contender: ``python -m benchmarks.peers_rl.tunix_grpo FOLDER SETTINGS``.

Its own loop (`GRPOLearner.train`) over its own Gemma, its vanilla sampler and its trainer, all on one device; drawing
is timed from outside. Where no seed is given, its sampler draws with the same noise at every update, so each gets one.
"""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.peers.meter import two_threads

STARTED = time.time()
two_threads()

from importlib.metadata import version  # noqa: E402

import jax  # noqa: E402
import numpy as np  # noqa: E402
import optax  # noqa: E402
import tokenizers  # noqa: E402
from flax import nnx  # noqa: E402
from jax.sharding import Mesh  # noqa: E402
from tunix.rl.grpo.grpo_learner import GRPOConfig, GRPOLearner  # noqa: E402
from tunix.rl.rl_cluster import ClusterConfig, RLCluster, RLTrainingConfig, Role  # noqa: E402
from tunix.rl.rollout.base_rollout import RolloutConfig  # noqa: E402

from benchmarks.peers.case import read_shape  # noqa: E402
from benchmarks.peers.tunix_peft import stacked  # noqa: E402
from benchmarks.peers_rl.meter import Meter, is_right, read_prompts  # noqa: E402
from workings.engines.tunix.bridge import tunix_model  # noqa: E402


class Texts:
    """The tokenizer in the form that Tunix takes: pad, eos and bos as in the file."""

    def __init__(self, path: Path) -> None:
        self.backend = tokenizers.Tokenizer.from_file(str(path))

    def encode(self, text: str) -> list[int]:
        """Token ids; control tokens of the text are theirs."""
        return list(self.backend.encode(text, add_special_tokens=False).ids)

    def decode(self, ids: list[int]) -> str:
        """The text without control tokens."""
        return str(self.backend.decode(ids, skip_special_tokens=True))

    def pad_id(self) -> int:
        """Of ``<pad>``."""
        return int(self.backend.token_to_id("<pad>"))

    def eos_id(self) -> int:
        """Of ``<eos>``."""
        return int(self.backend.token_to_id("<eos>"))

    def bos_id(self) -> int:
        """Of ``<bos>``."""
        return int(self.backend.token_to_id("<bos>"))


def main(folder: Path, settings: dict[str, Any]) -> None:
    """Train and report."""
    meter, shape = Meter(STARTED, settings["warm"]), read_shape(folder)
    updates, facts = settings["warm"] + settings["updates"], json.loads((folder / "facts.json").read_text())
    prompts = read_prompts(folder)
    tokenizer = Texts(folder / "weights" / "tokenizer.json")
    assert tokenizer.encode(prompts[0]["text"]) == prompts[0]["tokens"]
    model = tunix_model(stacked(folder, shape.layers), shape)
    mesh = Mesh(np.array(jax.devices()[:1]).reshape(1, 1), ("fsdp", "tp"))
    rule = optax.chain(optax.clip_by_global_norm(settings["clip_norm"]),
                       optax.adamw(settings["learning_rate"], weight_decay=0.0))
    rollout = RolloutConfig(
        max_tokens_to_generate=settings["new_tokens"], temperature=1.0, top_p=1.0, eos_tokens=facts["stop_ids"],
        # No room that is never used: attention goes over all of the cache.
        max_prompt_length=facts["longest_prompt"], kv_cache_size=facts["longest_prompt"] + settings["new_tokens"])
    cluster = RLCluster(actor=model, tokenizer=tokenizer, cluster_config=ClusterConfig(
        role_to_mesh=dict.fromkeys((Role.ACTOR, Role.REFERENCE, Role.ROLLOUT), mesh), rollout_config=rollout,
        training_config=RLTrainingConfig(
            actor_optimizer=rule, eval_every_n_steps=10**9, max_steps=updates, mini_batch_size=settings["prompts"],
            train_micro_batch_size=settings["prompts"] // settings.get("accumulation", 1),
            rollout_micro_batch_size=settings["prompts"])))
    draw = cluster.generate

    def timed(*arguments: Any, **named: Any) -> Any:
        started = time.perf_counter()
        found = draw(*arguments, **named)
        # Tunix leaves the stop token out of what it returns, and so out of what it trains; it was drawn all the same.
        meter.drew(time.perf_counter() - started,
                   sum(min(len(ids) + 1, settings["new_tokens"]) for ids in found.tokens))
        return found

    cluster.generate = timed

    def reward(prompts: list[str], completions: list[str], answer: Any, **others: object) -> list[float]:
        started = time.perf_counter()
        found = [is_right(text, str(wanted)) for text, wanted in zip(completions, answer, strict=True)]
        meter.rewarded(found, time.perf_counter() - started)
        return found

    def batches() -> Iterator[dict[str, np.ndarray]]:
        size = settings["prompts"]
        for update in range(updates):
            if update:
                jax.block_until_ready(nnx.state(cluster.actor_trainer.model))
                meter.end_update()
            rollout.seed = settings["seed"] * 100_000 + update
            some = prompts[update * size:(update + 1) * size]
            yield {"prompts": np.array([each["text"] for each in some]),
                   "answer": np.array([each["answer"] for each in some])}

    # One step a rollout and no KL; its loss is averaged within each completion, as the others' is asked to be.
    rule_of_learning = GRPOConfig(num_generations=settings["group"], num_iterations=1, beta=0.0)
    learner = GRPOLearner(cluster, algo_config=rule_of_learning, reward_fns=reward)
    learner.train(batches())
    jax.block_until_ready(nnx.state(cluster.actor_trainer.model))
    meter.end_update()
    meter.report({name: version(name) for name in ("google-tunix", "jax", "flax", "optax")})


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
