"""Models of no family of this package (`model.verified: false`): trained by transformers' class, sealed, said so."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from tests.engines.tiny import packed_batch, random_batch, request
from tests.runs.runs_helpers import forty_additions
from workings.config.method import LoraConfig, QloraConfig
from workings.config.training import AdafactorConfig, PrecisionConfig
from workings.engines.torch.engine import TorchEngine
from workings.engines.weight_files import read_shape
from workings.errors import RequestError
from workings.evidence.verify import verify
from workings.models.batch import Batch
from workings.models.tokenizer_training import train_tokenizer
from workings.models.unverified import unverified_sentence
from workings.publish.export import export_run
from workings.publish.model_card import model_card
from workings.record.reader import RunRecord
from workings.reports.html import write_report
from workings.runs.open_model import open_run
from workings.runs.plan import plan
from workings.runs.train import train

SIZES: dict[str, Any] = {
    "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 256, "pad_token_id": None, "bos_token_id": None,
    "eos_token_id": None, "attention_dropout": 0.1}
MORE: dict[str, dict[str, Any]] = {
    "lfm2": {"layer_types": ["conv", "full_attention"], "block_auto_adjust_ff_dim": False, "tie_word_embeddings": True},
    "phi3": {"resid_pdrop": 0.1},
    "granite": {"logits_scaling": 4.0, "embedding_multiplier": 3.0},
    "mistral": {"head_dim": 8, "sliding_window": 5},
    "gpt_oss": {"head_dim": 8, "num_local_experts": 4, "num_experts_per_tok": 2},
    "opt": {"ffn_dim": 64, "word_embed_proj_dim": 32},
    "bloom": {"n_layer": 2, "n_head": 4},
}
WORDS = ["engine=torch", "model={source: pretrained, id: base, verified: false}", "tokenizer=model",
         "data.template=plain", "data.max_length=64", "batch={micro_batch: 2, accumulation: 1}", "training.steps=4",
         "training.learning_rate=1e-2", "evaluation={}"]


def write_model(folder: Path, model_type: str, *, vocabulary: int = 61, **changes: Any) -> Path:
    """A tiny model as transformers' own class writes it, with numbers large enough that everything in it matters."""
    torch.manual_seed(0)
    sizes = SIZES | MORE.get(model_type, {}) | {"vocab_size": vocabulary} | changes
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(model_type, **sizes))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(0, parameter.shape[-1] ** -0.5)
    model.save_pretrained(folder)
    return folder


def logits_of(folder: Path, tokens: torch.Tensor) -> torch.Tensor:
    """What transformers computes with the class and the attention that it chooses itself."""
    model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager")
    with torch.no_grad():
        found: torch.Tensor = model(input_ids=tokens).logits
    return found


def without_padding(batch: Batch) -> Batch:
    """The same tokens, each row one segment to its end."""
    return replace(batch, segment_ids=np.ones_like(batch.segment_ids),
                   positions=np.broadcast_to(np.arange(batch.tokens.shape[-1], dtype=np.int32), batch.tokens.shape))


@pytest.mark.slow
@pytest.mark.parametrize("model_type", [
    "phi3", "lfm2", *(pytest.param(each, marks=pytest.mark.full) for each in ("granite", "mistral"))])
def test_it_learns_answers_and_comes_back_as_transformers_reads_it(model_type: str, tmp_path: Path) -> None:
    folder = write_model(tmp_path / "base", model_type)
    shape = read_shape(folder, verified=False)
    engine = TorchEngine.open(request(shape))
    state = engine.load(folder)
    batch = random_batch(shape, rows=3)
    tokens = torch.from_numpy(batch.tokens[0]).long()
    unpadded = without_padding(batch)
    ours = torch.from_numpy(engine.logits(state, unpadded))
    torch.testing.assert_close(ours, logits_of(folder, tokens), rtol=1e-4, atol=1e-5)
    losses = [engine.step(state, batch, 1e-2)[1].loss for _ in range(4)]
    assert losses[-1] < losses[0]
    (tmp_path / "out").mkdir()
    engine.export(state, tmp_path / "out")
    after = torch.from_numpy(engine.logits(state, unpadded))
    torch.testing.assert_close(logits_of(tmp_path / "out", tokens), after, rtol=1e-4, atol=1e-5)
    # prompts of two lengths: a state that saw padding would resume from the wrong place
    prompts = [[3, 1, 4, 1, 5], [9, 2, 6]]
    answers = engine.generate(state, prompts, max_new_tokens=5, stop_ids=[])
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    for prompt, answer in zip(prompts, answers, strict=True):
        reference = model.generate(torch.tensor([prompt]), max_new_tokens=5, do_sample=False, pad_token_id=0)
        assert answer.tokens == reference[0, len(prompt):].tolist()


@pytest.mark.parametrize("method", [
    LoraConfig(name="lora", rank=2, target_modules=("in_proj", "out_proj", "w2")),
    pytest.param(QloraConfig(name="qlora", rank=2, target_modules=("q_proj",)), marks=pytest.mark.full)])
def test_adapters_belong_beside_the_linear_layers_that_the_class_has(method: Any, tmp_path: Path) -> None:
    # whole blocks of 64 numbers, for codes of four bits
    folder = write_model(tmp_path / "base", "lfm2", hidden_size=64)
    shape = read_shape(folder, verified=False)
    engine = TorchEngine.open(request(shape, method=method))
    state = engine.load(folder)
    assert {name.split(".lora_")[0].rpartition(".")[2] for name in state.trained} == {*method.target_modules}
    batch = random_batch(shape, rows=2)
    losses = [engine.step(state, batch, 1e-2)[1].loss for _ in range(4)]
    assert losses[-1] < losses[0]
    with pytest.raises(RequestError, match=r"has no projection qkv_proj\n.*projections of lfm2") as caught:
        TorchEngine.open(request(shape, method=method.model_copy(update={"target_modules": ("qkv_proj",)})))
    assert "in_proj" in caught.value.try_next


def test_packed_rows_are_refused_where_a_state_goes_on_from_one_to_the_next(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "base", "lfm2")
    shape = read_shape(folder, verified=False)
    with pytest.raises(RequestError, match="packed sequence sees the row before it") as caught:
        TorchEngine.open(replace(request(shape), packed=True)).load(folder)
    assert caught.value.try_next == "data.packing=none"


def test_packed_rows_are_those_apart_where_attention_is_all(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "base", "phi3")
    shape = read_shape(folder, verified=False)
    engine = TorchEngine.open(replace(request(shape), packed=True))
    state = engine.load(folder)
    first, second = random_batch(shape, rows=2, seed=3).tokens[0][:, :3]
    together = engine.evaluate(state, packed_batch(first, second)).loss_sum
    apart = [engine.evaluate(state, packed_batch(one, one[:1])).loss_sum for one in (first, second)]
    assert together == pytest.approx(sum(apart), rel=1e-5)


@pytest.mark.parametrize(("model_type", "why"), [
    ("gpt_oss", "with our attention function differ"),
    ("bloom", "0 of 2 layers ask our attention function"),
    pytest.param("opt", "whose steps do not depend on values", marks=pytest.mark.full),
    pytest.param("stablelm", "do not hand on the model's keyword arguments", marks=pytest.mark.full),
    pytest.param("phi", "the head of a phi model has a bias", marks=pytest.mark.full),
    pytest.param("mamba", "answers otherwise with a cache", marks=pytest.mark.full),
])
def test_a_class_that_does_not_do_what_it_is_taken_for_is_refused(model_type: str, why: str, tmp_path: Path) -> None:
    folder = write_model(tmp_path / "base", model_type)
    with pytest.raises(RequestError, match=why):
        TorchEngine.open(request(read_shape(folder, verified=False))).load(folder)


def test_what_an_unknown_class_cannot_be_asked_is_refused(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "base", "lfm2")
    shape = read_shape(folder, verified=False)
    for changes, why in (
            ({"precision": PrecisionConfig(parameters="bf16", compute="fp32")}, "one format for both"),
            ({"optimizer": AdafactorConfig(name="adafactor")}, "more than two axes")):
        with pytest.raises(RequestError, match=why):
            TorchEngine.open(request(shape, **changes))
    # code that is next to a model is never run: a name that transformers has no class for is the end
    other = replace(shape, family="own_model")
    with pytest.raises(RequestError, match="is never run"):
        TorchEngine.open(request(other))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny LFM 2 and its tokenizer in `base`, a recipe that names it, and a sealed run of it."""
    from workings.config.load import shipped_recipes

    place = tmp_path_factory.mktemp("unverified")
    traces, _ = forty_additions()
    tokenizer = train_tokenizer((trace.prompt for trace in traces), 512)
    write_model(place / "base", "lfm2", vocabulary=tokenizer.vocab_size)
    tokenizer.save(place / "base")
    (place / "recipe.yaml").write_text(shipped_recipes()["smoke-tiny"])
    train(str(place / "recipe.yaml"), place / "runs" / "straight", WORDS)
    return place


@pytest.mark.slow
def test_a_run_says_everywhere_that_nothing_was_proven(folder: Path, tmp_path: Path) -> None:
    run, said = folder / "runs" / "straight", unverified_sentence("lfm2")
    record = RunRecord.open(run)
    assert (record.manifest.architecture, record.manifest.facts["unverified_model"]) == ("lfm2", said)
    assert record.manifest.final_loss < record.metrics()[0]["loss"]
    assert said in (run / "README.md").read_text()
    assert verify(run).failed == 0
    page = write_report(tmp_path / "page.html", [run]).read_text()
    assert "is not verified by this project" in page
    sealed = RunRecord.open(run)
    assert said in model_card("runs/straight", sealed.manifest, sealed.root, {}, {"library_name": "transformers"})
    export_run(run, tmp_path / "out")
    assert json.loads((tmp_path / "out" / "config.json").read_text())["architectures"] == ["Lfm2ForCausalLM"]
    assert open_run(run).checkpoint.step == 4
    planned = plan(str(folder / "recipe.yaml"), "t4", [word for word in WORDS if not word.startswith("device")])
    assert said in planned.reasons
    assert planned.verdict.source == "traced"


@pytest.mark.slow
def test_no_small_model_is_made_in_its_place_and_a_tokenizer_is_needed(folder: Path) -> None:
    recipe, out = str(folder / "recipe.yaml"), folder / "small"
    with pytest.raises(RequestError, match=r"--smoke cannot make a model with model\.verified: false"):
        train(recipe, out, WORDS, smoke=2)
    shutil.copytree(folder / "base", folder / "bare")
    (folder / "bare" / "tokenizer.json").unlink()
    with pytest.raises(RequestError, match=r"tokenizer\.json"):
        train(recipe, out, [*WORDS, "model.id=bare"])
    assert not out.exists()
