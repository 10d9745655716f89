"""Files of other trainers: renamed where there is a counterpart, refused with a way on without one."""

import pytest

from tests.config.minimal_recipe import MINIMAL
from workings.config.aliases import table
from workings.config.load import load_recipe
from workings.config.recipe import known_keys
from workings.errors import RequestError


def loaded(tmp_path, text, *overrides):
    path = tmp_path / "recipe.yaml"
    path.write_text(text)
    return load_recipe(str(path), overrides)


def test_every_counterpart_exists_and_every_row_says_something():
    keys = set(known_keys())
    for alias, row in table().items():
        assert ("key" in row) != ("instead" in row), alias
        assert {row["key"], *row.get("sets", {})} <= keys if "key" in row else row["instead"], alias


TRL = """
name: moved
model_name_or_path: google/gemma-2b
dataset_name: traces.jsonl
per_device_train_batch_size: 4
gradient_accumulation_steps: 2
max_steps: 100
learning_rate: 2e-5
lr_scheduler_type: constant_with_warmup
warmup_steps: 10
optim: adamw_torch
max_grad_norm: 1.0
max_seq_length: 512
packing: true
gradient_checkpointing: true
fp16: true
save_steps: 50
"""


def test_a_file_of_trl_becomes_a_recipe_that_overrides_change(tmp_path):
    found = loaded(tmp_path, TRL, "training.steps=17")
    recipe = found.recipe
    assert (recipe.model.source, recipe.model.id) == ("pretrained", "google/gemma-2b")
    assert (recipe.batch.micro_batch, recipe.batch.accumulation, recipe.training.steps) == (4, 2, 17)
    assert (recipe.training.schedule, recipe.optimizer.name, recipe.data.packing) == ("constant", "adamw", "best_fit")
    assert (recipe.memory.remat, recipe.optimizer.clip_norm, recipe.data.max_length) == ("layer", 1.0, 512)
    assert "`packing` (TRL, LLaMA-Factory) is `data.packing: best_fit` here" in found.renamed
    assert recipe.precision.compute == "fp16"
    assert len(found.renamed) == 15


@pytest.mark.parametrize(("line", "said"), [
    ("warmup_ratio: 0.1", "training.warmup_steps"),
    ("output_dir: here", "--out DIR"),
])
def test_what_has_no_counterpart_is_refused_with_what_to_do(tmp_path, line, said):
    with pytest.raises(RequestError, match=said):
        loaded(tmp_path, MINIMAL + line)


def test_both_names_with_two_values_are_refused_and_our_own_keys_are_never_renamed(tmp_path):
    with pytest.raises(RequestError, match="one of the two"):
        loaded(tmp_path, MINIMAL + "max_steps: 5")
    assert loaded(tmp_path, MINIMAL + "max_steps: 3").recipe.training.steps == 3
    # `optimizer` and `seed` are keys of every trainer; here they are ours.
    assert loaded(tmp_path, MINIMAL + "seed: 4").renamed == ()


def test_the_words_of_adapters_are_understood(tmp_path):
    found = loaded(tmp_path, TRL + "use_peft: true\nlora_r: 8\nlora_alpha: 16\nlora_dropout: 0.05\n").recipe.method
    assert (found.name, found.rank, found.alpha, found.dropout) == ("lora", 8, 16.0, 0.05)
    assert loaded(tmp_path, TRL + "use_peft: true\nload_in_4bit: true\nr: 4\n").recipe.method.name == "qlora"
    assert loaded(tmp_path, TRL + "use_peft: false\n").recipe.method.name == "full"


def test_all_complaints_about_a_file_come_at_once(tmp_path):
    with pytest.raises(RequestError) as caught:
        loaded(tmp_path, TRL + "warmup_ratio: 0.1\nuse_dora: true\nnonsense: 1\n")
    said = str(caught.value)
    assert all(word in said for word in ("warmup_ratio", "use_dora", "nonsense", "recipe.yaml:20"))


@pytest.mark.parametrize("word", ["num_train_epochs", "num_epochs", "epochs"])
def test_epochs_of_other_trainers_are_epochs_here(tmp_path, word):
    training = loaded(tmp_path, TRL.replace("max_steps: 100", f"{word}: 3")).recipe.training
    assert (training.epochs, training.steps) == (3.0, 0)
    with pytest.raises(RequestError, match=r"(?s)training\.steps: 100 and training\.epochs: 3.*one of the two"):
        loaded(tmp_path, TRL + f"{word}: 3\n")
