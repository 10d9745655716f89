"""Qwen 3.5 from a folder like its publisher's: the text part of a model that also sees, trained and put back."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import Qwen3_5Config, Qwen3_5ForConditionalGeneration

from tests.engines.tiny import tiny_shape
from tests.runs.runs_helpers import forty_additions
from workings.config.load import load_recipe, shipped_recipes
from workings.data.traces import Trace, write_items
from workings.errors import RequestError
from workings.evidence.verify import verify
from workings.inputs.resolve import find_shape
from workings.models.batch import Batch
from workings.models.shapes import to_hf_config
from workings.models.tokenizer_training import train_tokenizer
from workings.publish.export import export_run
from workings.record.reader import RunRecord
from workings.runs.open_model import open_run
from workings.runs.plan import plan
from workings.runs.smoke import shrink
from workings.runs.train import train
from workings.runs.train_and_evaluate import train_and_evaluate

pytestmark = [pytest.mark.slow, pytest.mark.children]
WORDS = ["engine=torch", "model={source: pretrained, id: base}", "tokenizer=model", "data.template=plain",
         "data.max_length=64", "batch={micro_batch: 2, accumulation: 1}", "training.steps=4",
         "training.learning_rate=1e-2", "evaluation={}"]
GUESSES = "mtp.layers.0.input_layernorm.weight"
"""Published files have a head that guesses several tokens at once, for which transformers has no class."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model that also sees, with its tokenizer, in `base`; a recipe that names it, and a sealed run of it."""
    place = tmp_path_factory.mktemp("qwen3_5")
    traces, _ = forty_additions()
    tokenizer = train_tokenizer((trace.prompt for trace in traces), 512)
    text = to_hf_config(tiny_shape("qwen3_5", vocab=tokenizer.vocab_size))
    torch.manual_seed(0)
    whole = Qwen3_5Config(tie_word_embeddings=True, text_config={
        name: value for name, value in text.items() if name != "architectures"}, vision_config={
            "depth": 1, "hidden_size": 16, "intermediate_size": 16, "num_heads": 2, "out_hidden_size": 32,
            "patch_size": 2, "spatial_merge_size": 1, "num_position_embeddings": 16})
    Qwen3_5ForConditionalGeneration(whole).save_pretrained(place / "base")
    weights = place / "base" / "model.safetensors"
    save_file(load_file(weights) | {GUESSES: torch.arange(32.0)}, weights, {"format": "pt"})
    tokenizer.save(place / "base")
    write_items(place / "items.jsonl", [Trace(id="next", prompt="Which number follows 1?", steps=(), answer="2")])
    (place / "recipe.yaml").write_text(shipped_recipes()["smoke-tiny"])
    asked = "evaluation={items: items.jsonl, max_new_tokens: 4, base: false}"
    done = train_and_evaluate(str(place / "recipe.yaml"), place / "runs" / "straight", [*WORDS, asked])
    assert done.to_json()["items"] == 1
    return place


def test_the_text_part_is_trained_and_the_rest_put_back(folder: Path, tmp_path: Path) -> None:
    run = folder / "runs" / "straight"
    record = RunRecord.open(run)
    assert record.manifest.architecture == "qwen3_5"
    assert record.manifest.final_loss < record.metrics()[0]["loss"]
    assert record.manifest.facts["left_aside"]["parts"] == ["mtp", "visual"]
    assert "unverified_model" not in record.manifest.facts
    assert "left aside mtp, visual of Qwen3_5ForConditionalGeneration" in (
        run / "train" / "training_log.txt").read_text()
    assert verify(run).failed == 0
    export_run(run, tmp_path / "out")
    before, after = (load_file(place / "model.safetensors") for place in (folder / "base", tmp_path / "out"))
    assert before.keys() == after.keys()
    same = {name for name in before if torch.equal(before[name], after[name])}
    assert {name for name in before if "visual" in name} | {GUESSES} == same
    whole = Qwen3_5ForConditionalGeneration.from_pretrained(tmp_path / "out", attn_implementation="eager")
    opened, tokens = open_run(run), torch.arange(3, 20)[None]
    with torch.no_grad():
        theirs = whole(input_ids=tokens).logits
    ones = torch.ones(1, 1, 17).numpy()
    batch = Batch(tokens=tokens[None].numpy().astype("int32"), targets=tokens[None].numpy().astype("int32"),
                  loss_mask=ones, positions=torch.arange(17)[None, None].numpy().astype("int32"),
                  segment_ids=ones.astype("int32"))
    ours = torch.from_numpy(opened.session.engine.logits(opened.session.state, batch))
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_adapters_in_layers_with_a_state_are_merged_into_what_transformers_reads(folder: Path, tmp_path: Path) -> None:
    out = folder / "runs" / "adapters"
    train(str(folder / "recipe.yaml"), out, [
        *WORDS, "method={name: lora, rank: 2, target_modules: [in_proj_qkv, in_proj_z, out_proj, q_proj, down_proj]}"])
    assert verify(out).failed == 0
    assert open_run(out).checkpoint.step == 4
    export_run(out, tmp_path / "out")
    merged = load_file(tmp_path / "out" / "model.safetensors")
    base = load_file(folder / "base" / "model.safetensors")
    changed = {name for name in base if not torch.equal(base[name], merged[name])}
    assert {name.rpartition(".layers.")[2].split(".")[-2] for name in changed} == {
        "in_proj_qkv", "in_proj_z", "out_proj", "q_proj", "down_proj"}


@pytest.mark.full
def test_its_plan_is_traced(folder: Path) -> None:
    planned = plan(str(folder / "recipe.yaml"), "t4", WORDS)
    assert planned.verdict.source == "traced"
    assert not any("not verified" in reason for reason in planned.reasons)


def test_a_small_model_of_its_kind_is_made(folder: Path) -> None:
    small = find_shape(shrink(load_recipe(str(folder / "recipe.yaml"), WORDS)), vocabulary=64)
    assert [small.is_linear(layer) for layer in range(small.layers)] == [True, True, True, False]


def test_what_it_cannot_be_asked_for_is_refused_before_anything_is_written(folder: Path, tmp_path: Path) -> None:
    for words, given, try_next in (
            (["data.packing=best_fit"], "data.packing does not work with a qwen3_5 model", "data.packing=none"),
            (["engine=jax"], "engine: jax cannot train a qwen3_5 model", "engine=torch"),
            (["engine=tunix"], "engine: tunix cannot train a qwen3_5 model", "engine=torch"),
            (["model={source: pretrained, id: base, verified: false}"],
             "model.verified: false contradicts the verified family qwen3_5", "model.verified=true, or leave it out")):
        with pytest.raises(RequestError, match=given) as caught:
            train(str(folder / "recipe.yaml"), tmp_path / "out", [*WORDS, *words])
        assert caught.value.try_next == try_next
        assert not (tmp_path / "out").exists()
