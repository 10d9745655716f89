"""What another value of each key of a recipe changes: a table for the reference page, and for the test that tries it.

`tests/config/test_key_effects.py` makes each recipe of this table, once with the words of the key's base and once with
another value, and compares what its witness sees. A key that is not here fails that test.
"""

from dataclasses import dataclass

from workings.config.sampler import SamplerConfig, samplers

WITNESSES = {
    "shape": "the model's tensors",
    "rows": "the rows, their batches or the order of these",
    "rates": "the learning rates of the steps",
    "update": "the weights after three updates",
    "program": "the program of a step, or its memory",
    "loss": "the loss of the same numbers",
    "rollout": "the size, the sampling or the advantages of a rollout",
    "reward": "the reward of the same completion",
    "stall": "when a run that does not learn is ended",
    "run": "what a run records",
    "refused": "whether the recipe is refused, here on one CPU",
    "named": "a separate test",
}
"""What each witness compares, as the reference page describes it."""


@dataclass(frozen=True)
class Effect:
    """How another value of a key shows."""

    witness: str
    """One of `WITNESSES`."""
    other: tuple[str, ...] = ()
    """Words with another value. Of `refused`: words that are refused with the key in the message. Of `named`: the test
    that shows the effect."""
    base: tuple[str, ...] = ()
    """Words of both recipes."""


GRPO = ("algorithm={name: grpo, group: 4, max_new_tokens: 16}", "rewards=[{scorer: answer}]", "batch.micro_batch=8")


def _of(witness: str, *cases: tuple[str, str] | tuple[str, str, tuple[str, ...]]) -> dict[str, Effect]:
    return {key: Effect(witness, (f"{key}={value}",), *base) for key, value, *base in cases}


def _named(file: str, test: str) -> Effect:
    return Effect("named", (f"{file}::{test}",))


_LORA, _PACKED = ("method={name: lora, rank: 4}",), ("data.buckets=[]",)
_BF16 = ("precision.parameters=bf16",)
_ADAFACTOR, _MUON = ("optimizer={name: adafactor}",), ("optimizer={name: muon}", "engine=jax")
_DPO, _TOP = ("algorithm={name: dpo}",), ("algorithm={name: distill_traces, teacher: nowhere}",)
_WATCHED, _ASKED = ("evaluation.traces=addition",), ("evaluation.items=addition",)

EFFECTS: dict[str, Effect] = {
    **_of("run", ("name", "other")),
    **_of("rows", ("seed", "3"), ("tokenizer", "FOLDER", ("model={source: pretrained, id: FOLDER}",)),
          ("data.traces", "OTHER"), ("data.template", "plain"), ("data.reasoning", "hashes"),
          ("data.learn", "all", ("data.traces=TALKS", "data.reasoning=answer_only")),
          ("data.max_length", "80", _PACKED),
          ("data.over_length", "drop", ("data.max_length=40",)), ("data.buckets", "[]"),
          ("data.packing", "best_fit", ("data.buckets=[]", "data.max_length=96")),
          ("batch.micro_batch", "2"), ("batch.accumulation", "2"),
          ("training.epochs", "2", ("training={learning_rate: 1e-3, epochs: 1}",))),
    **_of("shape", ("model.shape.family", "llama"), ("model.shape.layers", "3"), ("model.shape.width", "48"),
          ("model.shape.mlp_width", "48"), ("model.shape.heads", "4"), ("model.shape.kv_heads", "2"),
          ("model.shape.head_dim", "8"), ("model.shape", "gemma-2b"),
          ("model.source", "pretrained", ("model.id=FOLDER",)), ("model.id", "LARGER", (
              "model={source: pretrained, id: FOLDER}",))),
    **_of("refused", ("device", "tpu"), ("model.shape.context", "32"), ("mesh.fsdp", "2"),
          ("mesh.tp", "2"), ("mesh.replicate", "2"), ("algorithm.teacher", "nowhere", _TOP),
          ("rewards.file", "nowhere")),
    **_of("rates", ("training.steps", "9"), ("training.learning_rate", "2e-3"), ("training.schedule", "linear"),
          ("training.warmup_steps", "2"), ("training.final_share", "0.5")),
    **_of("update", ("engine", "jax"), ("method.name", "lora"), ("method.rank", "2", _LORA),
          ("method.alpha", "8", _LORA), ("method.rank_stabilized", "true", _LORA), ("method.dropout", "0.5", _LORA),
          ("method.target_modules", "[q_proj]", _LORA), ("optimizer.name", "adafactor"), ("optimizer.beta1", "0.5"),
          ("optimizer.beta2", "0.9"), ("optimizer.epsilon", "1e-3"), ("optimizer.weight_decay", "0.5"),
          ("optimizer.clip_norm", "0.1", _ADAFACTOR), ("optimizer.decay_power", "0.5", _ADAFACTOR),
          ("optimizer.clip_threshold", "0.1", _ADAFACTOR), ("optimizer.momentum", "0.5", _MUON),
          ("optimizer.nesterov", "false", _MUON), ("optimizer.ns_steps", "2", _MUON),
          ("optimizer.adjust_lr", "original", _MUON), ("precision.parameters", "bf16"), ("precision.compute", "bf16"),
          ("precision.moments", "bf16"), ("precision.rounding", "stochastic", _BF16)),
    **_of("program", ("memory.attention", "plain"), ("memory.remat", "layer"), ("memory.loss_chunk", "8"),
          ("memory.optimizer_in_backward", "true"), ("memory.cpu_optimizations", "false", ("engine=jax",))),
    **_of("loss", ("algorithm.name", "dpo"), ("algorithm.clip_low", "0.5", GRPO), ("algorithm.clip_high", "0.5", GRPO),
          ("algorithm.kl_beta", "0.5", GRPO), ("algorithm.beta", "0.5", _DPO), ("algorithm.loss", "ipo", _DPO),
          ("algorithm.label_smoothing", "0.2", _DPO), ("algorithm.length_normalized", "true", _DPO),
          ("algorithm.top_k", "3", _TOP), ("algorithm.right_weight", "3", ("algorithm={name: kto}",)),
          ("algorithm.wrong_weight", "3", ("algorithm={name: kto}",)),
          ("algorithm.gamma", "3", ("algorithm={name: simpo}",))),
    **_of("rollout", ("algorithm.group", "2", GRPO), ("algorithm.max_new_tokens", "8", GRPO),
          ("algorithm.updates", "2", GRPO), ("algorithm.temperature", "0.5", GRPO),
          ("algorithm.max_resamples", "3", ("algorithm={name: dapo, group: 4, max_new_tokens: 16}", *GRPO[1:]))),
    "algorithm.mask_truncated": _named(
        "tests/rollouts/test_rollouts.py",
        "test_a_completion_that_was_cut_off_has_no_advantage_where_the_recipe_says_so"),
    **_of("stall", ("algorithm.patience", "3", GRPO), ("algorithm.max_mismatch", "0.001", GRPO)),
    "rewards.weight": Effect("reward", ("rewards=[{scorer: answer, weight: 2}]",), GRPO),
    "rewards.scorer": Effect("reward", ("rewards=[{scorer: length}]",), GRPO),
    "rewards.buffer": Effect("reward", ("rewards=[{scorer: overlong, buffer: 9}]",), (
        *GRPO, "rewards=[{scorer: overlong, buffer: 15}]")),
    **_of("run", ("checkpoint.every_steps", "2"), ("checkpoint.every_minutes", "1e-6", ("checkpoint.every_steps=4",)),
          ("checkpoint.keep_last", "1", ("checkpoint.every_steps=1",)),
          ("evaluation.traces", "addition"), ("evaluation.items", "ITEMS"),
          ("evaluation.every_steps", "1", (*_WATCHED, "evaluation.every_steps=3")),
          ("evaluation.samples", "2", ("evaluation={items: ITEMS, samples: 1, base: false}",)),
          ("evaluation.max_new_tokens", "2", ("evaluation={items: ITEMS, max_new_tokens: 5, base: false}",)),
          ("evaluation.base", "false", ("evaluation={items: ITEMS, max_new_tokens: 2}",)),
          ("evaluation.scorer", "exact", ("evaluation={items: ITEMS, max_new_tokens: 2, base: false}",)),
          ("evaluation.items_during_training", "2", (*GRPO, "evaluation={items: ITEMS, max_new_tokens: 2, "
                                                     "every_steps: 1, base: false, items_during_training: 0}"))),
    "evaluation.batch_size": Effect("program", ("evaluation.batch_size=2",), ("evaluation={items: ITEMS}",)),
    "checkpoint.keep": _named("tests/runs/test_best_checkpoint.py",
                              "test_it_ends_when_patience_does_and_keeps_the_best"),
    "checkpoint.measure": _named("tests/runs/test_best_checkpoint.py",
                                 "test_by_accuracy_and_evaluated_with_the_kept_weights"),
    "checkpoint.sharded": _named("tests/runs/test_sharded_checkpoint.py",
                                 "test_a_stopped_and_resumed_run_in_shards_has_the_bits_of_one_with_whole_files"),
    "checkpoint.patience": _named("tests/runs/test_best_checkpoint.py",
                                  "test_it_ends_when_patience_does_and_keeps_the_best"),
    "rewards.seconds": _named("tests/scoring/test_rewards.py", "test_what_a_function_does_wrong_is_named"),
    "rewards.memory_gib": _named("tests/scoring/test_rewards.py",
                                 "test_a_function_has_the_memory_that_its_recipe_names"),
    "model.revision": _named("tests/models/test_hub.py",
                             "test_the_commit_is_recorded_whatever_was_asked_for_and_nothing_is_pickled"),
    "algorithm.teacher_revision": _named("tests/models/test_hub.py",
                                         "test_the_commit_is_recorded_whatever_was_asked_for_and_nothing_is_pickled"),
    "model.verified": _named("tests/runs/test_unverified_model.py",
                             "test_it_learns_answers_and_comes_back_as_transformers_reads_it"),
    "algorithm.teacher_precision": _named("tests/runs/test_train_distilled.py",
                                          "test_a_teacher_in_fewer_bits_says_about_the_same"),
    "memory.per_layer_embeddings": _named("tests/planning/test_unlike_layers.py",
                                          "test_on_the_host_the_table_takes_nothing_of_the_device"),
    **{f"environment.{key}": _named("tests/environments/test_environments.py", test) for key, test in (
        ("name", "test_a_recipe_names_its_environment"), ("turns", "test_a_recipe_names_its_environment"),
        ("tasks", "test_a_recipe_names_its_environment"), ("options", "test_a_recipe_names_its_environment"),
        ("seconds", "test_an_environment_that_hangs_is_killed"),
        ("memory_gib", "test_an_environment_has_the_memory_that_its_recipe_names"))},
    "environment": _named("tests/environments/test_environments.py", "test_a_recipe_names_its_environment"),
    "sampler": _named("tests/rollouts/test_vllm.py", "test_a_server_is_started_with_the_words_of_the_recipe"),
    "sampler.name": _named("tests/rollouts/test_vllm.py", "test_what_would_sample_otherwise_is_refused"),
    # Each sampler has a test file of its name, which gives its keys.
    **{f"sampler.{key}": Effect("named", (f"tests/rollouts/test_{section.__module__.rpartition('.')[2]}.py",))
       for section in samplers() for key in section.model_fields if key not in SamplerConfig.model_fields},
    "sampler.ahead": _named("tests/evidence/test_sampled_elsewhere.py",
                            "test_each_rollout_has_the_adapters_of_its_update_or_of_the_one_during_which_it_is_sampled"),
}
