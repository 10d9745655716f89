"""Shapes of models: the catalog, Hugging Face's configs both ways, names and counts of tensors."""

import pytest

from workings.config.model import ShapeConfig
from workings.errors import RequestError
from workings.models.shapes import catalog, from_hf_config, published_shape, shape_from_config, to_hf_config
from workings.models.weights import parameter_count


@pytest.mark.parametrize("name", list(catalog()))
def test_published_counts_and_the_way_back(name: str) -> None:
    row = catalog()[name]
    shape = published_shape(name)
    assert parameter_count(shape) == row["parameters"]
    assert from_hf_config(to_hf_config(shape)) == shape
    assert len(row["source"]) > 20
    assert "/" in row["hub_id"]


@pytest.mark.slow
def test_what_a_config_of_qwen_3_5_leaves_out_is_transformers_default() -> None:
    """`save_pretrained` writes no key whose value is the class's default."""
    from transformers import Qwen3_5TextConfig

    theirs, text = Qwen3_5TextConfig().to_dict(), {"model_type": "qwen3_5_text"}
    for config in (text, {"model_type": "qwen3_5", "text_config": {}}, {"model_type": "qwen3_5", "text_config": text}):
        ours = to_hf_config(from_hf_config(config))
        assert {name: ours[name] for name in ours if name in theirs} == {
            name: theirs[name] for name in ours if name in theirs} | {
            "architectures": ours["architectures"], "rope_parameters": ours["rope_parameters"]}
    assert ours["rope_parameters"]["partial_rotary_factor"] == theirs["rope_parameters"]["partial_rotary_factor"]
    tied = {"model_type": "qwen3_5", "tie_word_embeddings": True, "text_config": text}
    assert from_hf_config(tied).tied_embeddings, "the outer file says of the head whether it is the embedding"


@pytest.mark.parametrize(("changes", "why"), [
    ({"layer_types": ["linear_attention"] * 32}, "at least one layer that attends"),
    ({"layer_types": ["sliding_attention"] * 32}, "linear_attention or full_attention for each layer"),
    ({"linear_num_key_heads": 12}, "must be a multiple of linear_num_key_heads"),
    ({"linear_num_key_heads": 0}, "a whole number from 1"),
    ({"attn_output_gate": False}, "attn_output_gate: True"),
    ({"attention_bias": True}, "a model without these biases"),
    ({"head_dim": 4}, "rotary embeddings turn pairs"),
    ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e7, "factor": 4.0,
                          "original_max_position_embeddings": 32768}}, "cannot have rope scaling of type 'yarn'"),
])
def test_a_qwen_3_5_that_would_be_computed_otherwise_is_refused(changes: dict, why: str) -> None:
    with pytest.raises(RequestError, match=why):
        from_hf_config({"model_type": "qwen3_5_text"} | changes)


def test_unknown_names_and_settings_are_refused_with_what_is_there() -> None:
    with pytest.raises(RequestError, match="gemma-2b") as caught:
        published_shape("gema-2b")
    assert caught.value.try_next == "shape: gemma-2b"
    with pytest.raises(RequestError, match="no family has model_type 'bert'"):
        from_hf_config({"model_type": "bert"})
    good = to_hf_config(published_shape("gemma-2-2b"))
    with pytest.raises(RequestError, match="sliding_attention or full_attention for each layer"):
        from_hf_config(good | {"layer_types": ["linear_attention", *good["layer_types"][1:]]})
    with pytest.raises(RequestError, match="lacks hidden_size, sliding_window"):
        from_hf_config({key: value for key, value in good.items() if key not in ("hidden_size", "sliding_window")})
    with pytest.raises(RequestError, match="longrope"):
        from_hf_config(to_hf_config(published_shape("qwen3-0.6b")) | {"rope_scaling": {"rope_type": "longrope"}})


def test_heads_that_do_not_divide_are_shown() -> None:
    config = ShapeConfig(layers=1, width=8, mlp_width=8, heads=4, kv_heads=3, head_dim=2)
    with pytest.raises(RequestError, match=r"heads \(4\) must be a multiple of kv_heads \(3\)") as caught:
        shape_from_config(config, 10)
    assert caught.value.try_next == "kv_heads: 2"
