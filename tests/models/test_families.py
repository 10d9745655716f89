"""Model families: one file each, no two of one name, and families that other packages bring."""

from dataclasses import replace
from importlib.resources import files

import pytest

from tests.engines.tiny import tiny_shape
from tests.models.other_family import FAMILY, install
from workings.config.families import FAMILIES, TEMPLATES
from workings.config.load import check_recipe, load_recipe, recipe_schema
from workings.config.model import ShapeConfig
from workings.errors import RequestError
from workings.models import registry
from workings.models.registry import families, find_family, register
from workings.models.shape import ModelShape
from workings.models.shapes import from_hf_config, published_shape, shape_from_config, to_hf_config
from workings.models.weights import layer_shapes, tensor_shapes

TOY = "tests.models.other_family:FAMILY"
SIZES = {"layers": 4, "width": 32, "mlp_width": 48, "heads": 4, "kv_heads": 2, "head_dim": 8, "context": 128}


def recipe_values(**shape: object) -> dict:
    values = load_recipe("smoke-tiny").recipe.model_dump(mode="json")
    values["model"]["shape"] |= shape
    return values


def test_recipes_know_every_family_and_every_template():
    assert [family.name for family in families()] == list(FAMILIES)
    names = {file.name.removesuffix(".jinja") for file in files("workings.models.templates").iterdir()
             if file.name.endswith(".jinja")}
    assert names | {"tokenizer"} == set(TEMPLATES)
    assert {family.template for family in families()} <= set(TEMPLATES)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_agrees_with_itself(name):
    family = find_family(name)
    shape = shape_from_config(ShapeConfig(family=name, **SIZES | {"kv_heads": 2}), 61)
    # Not every layer has every projection.
    there = {name: size for i in range(shape.layers) for name, size in layer_shapes(shape, i).items()}
    for projection in family.projections:
        assert len(there[f"{projection}.weight"]) == 2
    assert set(family.residual) <= set(family.projections)
    assert {there[f"{each}.weight"][0] for each in family.residual} == {shape.width}
    assert to_hf_config(from_hf_config(to_hf_config(shape))) == to_hf_config(shape)
    assert set(family.switches) <= set(ModelShape.__dataclass_fields__)


@pytest.mark.parametrize("key", ["name", "model_type"])
def test_two_families_of_one_name_are_refused(key, monkeypatch):
    monkeypatch.setattr(registry, "registered", {})
    llama = find_family("llama")
    assert register(llama) is llama
    with pytest.raises(RequestError, match=f"llama and .* both have {key} 'llama'"):
        register(replace(FAMILY, **{key: "llama"}))


def test_a_typo_lists_the_families(monkeypatch, tmp_path):
    with pytest.raises(RequestError, match=r"'gemma', 'gemma2', .*'qwen3_5' or 'smollm3' \(Architecture"):
        check_recipe(recipe_values(family="lama"), "recipe.yaml")
    with pytest.raises(RequestError, match="one of gemma, gemma2"):
        find_family("lama")
    install(monkeypatch, tmp_path, toy=TOY)
    with pytest.raises(RequestError, match="'smollm3' or 'toy'"):
        check_recipe(recipe_values(family="lama"), "recipe.yaml")


def test_a_family_of_another_package_is_one_of_ours(monkeypatch, tmp_path):
    values = recipe_values(family="toy")
    with pytest.raises(RequestError, match="family cannot be 'toy'"):
        check_recipe(values, "recipe.yaml")
    config = to_hf_config(ModelShape(family="llama", vocab_size=61, **SIZES, activation="silu")) | {
        "model_type": "seed_oss", "attention_bias": True}
    with pytest.raises(RequestError, match=r"no family has model_type 'seed_oss'\nexpected: one of gemma, gemma2, "):
        from_hf_config(config)
    install(monkeypatch, tmp_path, toy=TOY)
    assert from_hf_config(config).family == "toy", "found by its model_type, before it is asked for by name"
    assert recipe_schema()["$defs"]["ShapeConfig"]["properties"]["family"]["enum"] == [*FAMILIES, "toy"]
    shape = shape_from_config(check_recipe(values, "recipe.yaml").model.shape, 61)
    assert (shape.family, shape.qkv_bias, shape.activation) == ("toy", True, "silu")
    assert tensor_shapes(shape)["model.layers.1.self_attn.k_proj.bias"] == (16,)
    config = to_hf_config(shape)
    assert (config["model_type"], config["attention_bias"]) == ("seed_oss", True)
    assert from_hf_config(config) == shape
    with pytest.raises(RequestError, match="a toy model cannot have attention_out_bias: True"):
        from_hf_config(config | {"attention_out_bias": True})


@pytest.mark.parametrize(("points", "said"), [
    ({"gemma": TOY}, "model family gemma of toys"),
    ({"other": TOY}, "a `workings.models.family.Family` whose name is 'other'"),
    ({"toy": "tests.models.other_family:LLAMA"}, "whose name is 'toy'"),
])
def test_what_a_package_may_not_bring(points, said, monkeypatch, tmp_path):
    install(monkeypatch, tmp_path, **points)
    monkeypatch.setattr(registry, "registered", {})
    with pytest.raises(RequestError, match=said):
        find_family(next(iter(points)))


def test_a_shape_outlives_its_package():
    """A record of a family that is not installed can be opened; what needs the family says so."""
    shape = ModelShape(family="gone", vocab_size=61, **SIZES)
    with pytest.raises(RequestError, match="install the package that brings it"):
        tensor_shapes(shape)


def test_an_engine_that_cannot_run_a_family_says_which_can():
    with pytest.raises(RequestError, match="engine: jax cannot train a qwen3_5 model") as refused:
        find_family("qwen3_5").check_engine("jax", published_shape("qwen3.5-2b"))
    assert refused.value.try_next == "engine=torch"
    find_family("qwen3_5").check_engine("torch", published_shape("qwen3.5-2b"))
    assert not find_family("llama").refusals


def gemma4_with(layers: object) -> ModelShape:
    """Read as transformers writes a Gemma 4 since 5.15, with these sizes of single layers."""
    config = to_hf_config(replace(tiny_shape("gemma4"), layers=4, sliding_pattern=2, keys_as_values=True,
                                  shared_kv_layers=0, shared_mlp_width=0, per_layer_width=0))
    for name in ("global_head_dim", "num_global_key_value_heads"):
        del config[name]
    return from_hf_config(config | {"per_layer_config": layers})


def test_global_layers_of_gemma_4_may_have_their_sizes_layer_by_layer() -> None:
    for sizes, expected in (({"head_dim": 16}, (16, 0)), ({"head_dim": 16, "num_key_value_heads": 1}, (16, 1))):
        read = gemma4_with({"1": sizes, "3": sizes})
        assert (read.global_head_dim, read.global_kv_heads) == expected


@pytest.mark.parametrize("layers", [
    {"1": {"head_dim": 16}}, {"1": {"head_dim": 16}, "3": {"head_dim": 8}}, {"0": {"head_dim": 16}}, {}, "all",
    *({"1": {"head_dim": size}, "3": {"head_dim": size}} for size in ("16", True, 1 << 40)), {"1": [], "3": []}])
def test_other_sizes_of_single_layers_are_refused(layers: object) -> None:
    with pytest.raises(RequestError, match="per_layer_config"):
        gemma4_with(layers)
