"""What vLLM and peft read of an exported folder beyond weights: names, ids, config keys."""

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from tests.engines.tiny import tiny_shape
from workings.engines.checkpoint_files import ADAPTER_CONFIG, ADAPTER_FILE, IN_TEXT, merge_non_text_weights
from workings.engines.safetensors_file import TensorFile, write_tensors
from workings.engines.weight_files import model_weights
from workings.models.chat import ChatTemplate
from workings.models.shape import ModelShape
from workings.models.shapes import from_hf_config, to_hf_config
from workings.models.stop_tokens import StopTokens
from workings.models.tokenizer_training import train_tokenizer
from workings.models.weights import layer_name, layer_shapes, tensor_shapes
from workings.publish.export import write_tokenizer

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
peft = pytest.importorskip("peft")

TARGETS = ("q_proj", "down_proj")
TOWERS = {
    "gemma3": {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
               "image_size": 28, "patch_size": 14},
    "gemma4": {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
               "num_key_value_heads": 2, "head_dim": 8, "position_embedding_size": 16}}


def whole_model(family: str) -> "transformers.PreTrainedModel":
    """A tiny multimodal model, as transformers makes it."""
    text = {name: x for name, x in to_hf_config(tiny_shape(family)).items() if name != "architectures"}
    torch.manual_seed(0)
    if family == "gemma3":
        return transformers.Gemma3ForConditionalGeneration(transformers.Gemma3Config(
            text_config=text, vision_config=TOWERS[family], mm_tokens_per_image=4))
    return transformers.Gemma4ForConditionalGeneration(transformers.Gemma4Config(
        text_config=text, vision_config=TOWERS[family], audio_config=None, tie_word_embeddings=True))


def write_text_part(folder: Path, base: Path, shape: ModelShape) -> dict[str, np.ndarray]:
    """What an engine exports of the text part: here the weights of ``base``, and adapters of numbers above zero."""
    (folder / "adapter").mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(to_hf_config(shape) | {"dtype": "float32"}))
    read = model_weights(base, shape).read
    write_tensors(folder / "model.safetensors", {name: (read(name).dtype, size)
                                                 for name, size in tensor_shapes(shape).items()}, read)
    draw = np.random.default_rng(0)
    adapters = {}
    for layer in range(shape.layers):
        for name, size in layer_shapes(shape, layer).items():
            if not name.endswith(tuple(f"{target}.weight" for target in TARGETS)):
                continue
            outer, inner = size
            stem = IN_TEXT.removesuffix("model.") + layer_name(layer, name).removesuffix("weight")
            adapters |= {f"{stem}lora_A.weight": draw.random((2, inner), np.float32),
                         f"{stem}lora_B.weight": draw.random((outer, 2), np.float32)}
    write_tensors(folder / "adapter" / ADAPTER_FILE, {name: (x.dtype, x.shape) for name, x in adapters.items()},
                  adapters.__getitem__)
    (folder / "adapter" / ADAPTER_CONFIG).write_text(json.dumps({
        "peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 2, "lora_alpha": 4, "inference_mode": True,
        "target_modules": list(TARGETS)}))
    return adapters


@pytest.mark.parametrize("family", TOWERS)
def test_peft_puts_adapters_on_the_text_part_of_the_whole_model_and_on_nothing_else(family: str,
                                                                                    tmp_path: Path) -> None:
    shape = from_hf_config(to_hf_config(tiny_shape(family)))
    whole_model(family).save_pretrained(tmp_path / "base")
    adapters = write_text_part(tmp_path / "out", tmp_path / "base", shape)
    merge_non_text_weights(tmp_path / "out", tmp_path / "base", shape)

    stored = TensorFile(tmp_path / "out" / "adapter" / ADAPTER_FILE)
    # What vLLM turns into `language_model.model.` of its own classes.
    assert all(name.startswith("base_model.model.model.language_model.layers.") for name in stored.names())
    assert len(stored.names()) == len(adapters)
    model = peft.PeftModel.from_pretrained(whole_model(family), tmp_path / "out" / "adapter")
    there = {name.replace(".default.", "."): x for name, x in model.named_parameters() if "lora_" in name}
    assert set(there) == set(stored.names())
    for name, values in adapters.items():
        renamed = name.replace(IN_TEXT, "base_model.model.model.language_model.", 1)
        np.testing.assert_array_equal(there[renamed].detach().numpy(), values, err_msg=name)


@pytest.mark.parametrize("family", ["gemma2", "gemma4"])
def test_a_shape_that_a_record_held_becomes_a_config_that_transformers_opens(family: str) -> None:
    shape = tiny_shape(family)
    # A record writes 30.0 as 30, and transformers refuses an integer as soft cap.
    recorded = {name: int(x) if isinstance(x, float) and x.is_integer() else x for name, x in asdict(shape).items()}
    assert isinstance(recorded["final_softcap"], int)
    config = to_hf_config(ModelShape(**recorded))
    opened = transformers.AutoConfig.for_model(**{name: x for name, x in config.items() if name != "architectures"})
    assert opened.final_logit_softcapping == shape.final_softcap


def test_the_tokenizer_says_everywhere_what_its_readers_look_for(tmp_path: Path) -> None:
    tokenizer = train_tokenizer(["1+1=2", "what is it?"], 400)
    template = ChatTemplate.for_config("gemma", tokenizer, "any")
    write_tokenizer(template, StopTokens.of(template, None), tmp_path)
    settings = json.loads((tmp_path / "tokenizer_config.json").read_text())
    assert (tmp_path / "chat_template.jinja").read_text() == settings["chat_template"] == template.source
    added = settings["added_tokens_decoder"]
    turn = tokenizer.ids["<end_of_turn>"]
    assert (added[str(turn)]["content"], added[str(turn)]["special"]) == ("<end_of_turn>", True)
    assert added[str(tokenizer.ids["<answer>"])]["special"] is False
    said = json.loads((tmp_path / "generation_config.json").read_text())
    assert (said["bos_token_id"], said["eos_token_id"]) == (tokenizer.bos_id, template.stop_ids)
    opened = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert opened.convert_tokens_to_ids("<end_of_turn>") == turn
    text = "<start_of_turn>user\n12+3<end_of_turn>"
    assert opened.encode(text, add_special_tokens=False) == tokenizer.encode(text)
