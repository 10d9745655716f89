"""Models of no family of this package, as far as their files alone say what they are: no ML library is loaded."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from workings.config.load import check_recipe, load_recipe
from workings.engines.safetensors_file import write_tensors
from workings.engines.weight_files import read_shape
from workings.errors import RequestError
from workings.inputs.resolve import find_shape
from workings.models.registry import family_of
from workings.models.shape import ModelShape
from workings.models.shapes import to_hf_config, unverified_from_hf
from workings.models.weights import layer_shapes, parameter_count, tensor_shapes

CONFIG: dict[str, Any] = {
    "model_type": "phi3", "architectures": ["Phi3ForCausalLM"], "vocab_size": 11, "hidden_size": 8,
    "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 12,
    "max_position_embeddings": 64, "partial_rotary_factor": 0.5, "auto_map": {"AutoModel": "code.py--Model"}}
LAYER = {"input_layernorm.weight": (8,), "self_attn.qkv_proj.weight": (16, 8), "self_attn.o_proj.weight": (8, 8),
         "mlp.gate_up_proj.weight": (24, 8), "mlp.down_proj.weight": (8, 12), "linear.conv1d.weight": (8, 1, 4)}
OUTER = {"model.embed_tokens.weight": (11, 8), "model.norm.weight": (8,), "lm_head.weight": (11, 8)}
STORED = OUTER | {f"model.layers.{i}.{name}": size for i in range(2) for name, size in LAYER.items()}


def test_everything_about_it_comes_from_its_two_kinds_of_files() -> None:
    shape = unverified_from_hf(CONFIG, STORED)
    assert (shape.family, shape.verified, shape.layers, shape.kv_heads, shape.head_dim) == ("phi3", False, 2, 1, 4)
    assert dict(layer_shapes(shape, 1)) == LAYER
    assert family_of(shape).outer_shapes(shape) == OUTER
    assert tensor_shapes(shape) == STORED
    # Two tables and a norm; 8 + 128 + 64 + 192 + 96 + 32 in each layer.
    assert parameter_count(shape) == 2 * 88 + 8 + 2 * 520
    assert {*family_of(shape).projections} == {
        "self_attn.qkv_proj", "self_attn.o_proj", "mlp.gate_up_proj", "mlp.down_proj"}
    # what decides the model is kept; code that came with it is not
    assert to_hf_config(shape) == {key: value for key, value in CONFIG.items() if key != "auto_map"}


def test_its_record_gives_the_very_same_shape() -> None:
    shape = unverified_from_hf(CONFIG, STORED)
    again = ModelShape(**json.loads(json.dumps(asdict(shape))))
    assert again == shape
    assert hash(again) == hash(shape)
    assert family_of(again) is family_of(shape)


def test_of_a_model_that_also_sees_the_text_part_is_taken() -> None:
    outer = {"model_type": "seeing", "architectures": ["SeeingForConditionalGeneration"], "tie_word_embeddings": True,
             "vision_config": {"depth": 2}, "text_config": CONFIG}
    # A second copy of the tied matrix is left out.
    renamed = {f"model.language_model.{name.removeprefix('model.')}": size for name, size in STORED.items()}
    seen = {"model.visual.blocks.0.attn.qkv.weight": (6, 2), "mtp.layers.0.input_layernorm.weight": (8,)}
    shape = unverified_from_hf(outer, renamed | seen)
    assert shape.family == "phi3"
    assert tensor_shapes(shape) == {name: size for name, size in STORED.items() if name != "lm_head.weight"}
    assert {"vision_config", "workings_text_part_of"}.isdisjoint(to_hf_config(shape))
    assert family_of(shape).multimodal == {"seeing": {}}, "so that the rest is put back where the run is exported"


@pytest.mark.parametrize(("changes", "why"), [
    ({"is_encoder_decoder": True}, "an encoder with a decoder"),
    ({"quantization_config": {"bits": 4}}, "quantization_config"),
    ({"model_type": None}, "model_type of config.json cannot be None"),
    ({"hidden_size": None}, "config.json lacks hidden_size"),
    ({"num_hidden_layers": 3}, "lack tensors of 3 numbered layers"),
    ({"num_attention_heads": 2, "num_key_value_heads": 3}, "must be a multiple of kv_heads"),
    ({"architectures": ["BertForMaskedLM"], "is_decoder": False}, "a causal model"),
])
def test_what_cannot_be_trained_is_refused_by_its_files(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(RequestError, match=why):
        unverified_from_hf(CONFIG | changes, STORED)


def test_a_family_that_is_proven_is_not_recorded_as_if_it_were_not() -> None:
    llama = CONFIG | {"model_type": "llama"}
    with pytest.raises(RequestError, match=r"model\.verified: false contradicts the verified family llama") as caught:
        unverified_from_hf(llama, STORED)
    assert caught.value.try_next.startswith("model.verified=true")
    # settings that our own Llama does not compute are those of another model
    assert unverified_from_hf(llama | {"attention_bias": True}, STORED).family == "llama"


def write(folder: Path, *, tensors: bool) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    if tensors:
        plan = {name: (np.dtype(np.float32), size) for name, size in STORED.items()}
        write_tensors(folder / "model.safetensors", plan, lambda name: np.zeros(STORED[name], np.float32))
    return folder


def test_a_folder_without_safetensors_is_refused(tmp_path: Path) -> None:
    assert read_shape(write(tmp_path / "whole", tensors=True), verified=False) == unverified_from_hf(CONFIG, STORED)
    with pytest.raises(RequestError, match=r"has no model\.safetensors"):
        read_shape(write(tmp_path / "bare", tensors=False), verified=False)


def test_an_unknown_model_says_how_it_can_be_trained_all_the_same(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="no family has model_type 'phi3'") as caught:
        read_shape(write(tmp_path / "whole", tensors=True))
    assert "model.verified=false" in caught.value.try_next


PRETRAINED = ["model={source: pretrained, id: far/away, verified: false}", "tokenizer=model"]


@pytest.mark.parametrize("engine", ["jax", "tunix"])
def test_other_engines_have_no_class_for_it(engine: str, tmp_path: Path) -> None:
    folder = write(tmp_path / "whole", tensors=True)
    words = [f"model={{source: pretrained, id: {folder}, verified: false}}", "tokenizer=model"]
    assert not find_shape(load_recipe("smoke-tiny", [*words, "engine=torch"])).verified
    with pytest.raises(RequestError, match=f"engine: {engine} cannot train a phi3 model") as caught:
        find_shape(load_recipe("smoke-tiny", [*words, f"engine={engine}"]))
    assert caught.value.try_next == "engine=torch"


def test_without_its_files_there_is_no_plan() -> None:
    with pytest.raises(RequestError, match="without them there is no plan"):
        find_shape(load_recipe("smoke-tiny", [*PRETRAINED, "engine=torch"]))


def test_only_an_unverified_model_may_have_projections_of_other_names() -> None:
    method = "method={name: lora, target_modules: [qkv_proj]}"
    assert load_recipe("smoke-tiny", [*PRETRAINED, "engine=torch", method]).recipe.method.name == "lora"
    with pytest.raises(RequestError, match=r"method\.target_modules: qkv_proj"):
        load_recipe("smoke-tiny", [method])


def test_records_from_before_the_key_are_of_proven_models() -> None:
    values = load_recipe("smoke-tiny", [PRETRAINED[0].replace(", verified: false", ""), "tokenizer=model"]).resolved()
    del values["model"]["verified"]
    assert check_recipe(values, "a record").model.verified
