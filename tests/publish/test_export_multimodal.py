"""A multimodal Gemma 4: its text part is trained, the rest is left aside, said, and put back on export."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from tests.engines.tiny import random_batch, request, tiny_shape
from workings.config.method import LoraConfig
from workings.data.generators import addition
from workings.data.traces import Trace
from workings.engines.checkpoint_files import ADAPTER_FILE, IN_TEXT, merge_non_text_weights
from workings.engines.safetensors_file import TensorFile
from workings.engines.torch.engine import TorchEngine
from workings.engines.weight_files import model_weights
from workings.errors import RequestError
from workings.models.shape import ModelShape
from workings.models.shapes import from_hf_config, to_hf_config
from workings.models.tokenizer_training import train_tokenizer
from workings.models.weights import tensor_shapes
from workings.publish.export import OTHER_TOKENIZER, Exported, carry_over, export_run
from workings.record.reader import RunRecord
from workings.runs.open_model import open_run
from workings.runs.train import train

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
peft = pytest.importorskip("peft")
pytestmark = [pytest.mark.slow, pytest.mark.children]

RECIPE = """name: text-part
seed: 17
engine: jax
device: cpu
model: {{source: pretrained, id: {folder}}}
data: {{traces: addition, template: gemma, reasoning: tags, max_length: 64}}
batch: {{micro_batch: 2}}
training: {{steps: 3, learning_rate: 1e-3, schedule: cosine}}
optimizer: {{name: adamw}}
checkpoint: {{every_steps: 3, keep_last: 1}}
"""
TAKEN = ("LICENSE", "USE_POLICY.md", "added_tokens.json", "tokenizer.model")
"""Files of the published folder that an export has to have as well."""
TOWERS = {
    "gemma3": {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
               "image_size": 28, "patch_size": 14},
    "gemma4": {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
               "num_key_value_heads": 2, "head_dim": 8, "position_embedding_size": 16}}


def whole_model(family: str, shape: ModelShape) -> "transformers.PreTrainedModel":
    """A tiny multimodal model, as transformers makes it."""
    text = {name: x for name, x in to_hf_config(shape).items() if name != "architectures"}
    torch.manual_seed(0)
    if family == "gemma3":
        return transformers.Gemma3ForConditionalGeneration(transformers.Gemma3Config(
            text_config=text, vision_config=TOWERS[family], mm_tokens_per_image=4))
    return transformers.Gemma4ForConditionalGeneration(transformers.Gemma4Config(
        text_config=text, vision_config=TOWERS[family], audio_config=None, tie_word_embeddings=True))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny `Gemma4ForConditionalGeneration` as its publisher's folder would look."""
    folder = tmp_path_factory.mktemp("gemma4") / "whole"
    traces: list[Trace] = addition.make(40, 1, seed=0)[0]
    tokenizer = train_tokenizer([f"{trace.prompt} {trace.answer}" for trace in traces], 400)
    whole_model("gemma4", tiny_shape("gemma4", vocab=tokenizer.vocab_size)).save_pretrained(folder)
    tokenizer.save(folder)
    (folder / "processor_config.json").write_text('{"processor_class": "Gemma4Processor"}\n')
    for name in TAKEN:
        (folder / name).write_text(f"published {name}\n")
    (folder / "generation_config.json").write_text('{"suppress_tokens": [7], "temperature": 1.0}\n')
    return folder


@contextmanager
def moved(folder: Path) -> Iterator[None]:
    """A folder that is not where the recipe had it."""
    away = folder.rename(folder.with_name("moved"))
    try:
        yield
    finally:
        away.rename(folder)


@pytest.fixture(scope="module")
def run(whole: Path) -> Path:
    recipe = whole.parent / "recipe.yaml"
    recipe.write_text(RECIPE.format(folder=whole))
    return train(str(recipe), whole.parent / "run").run


def test_training_says_what_it_leaves_aside(whole: Path, run: Path) -> None:
    left = RunRecord.open(run).manifest.facts["left_aside"]
    assert left["architecture"] == "Gemma4ForConditionalGeneration"
    assert left["parts"] == ["embed_vision", "vision_tower"]
    assert left["tensors"] > 5
    assert "left aside embed_vision, vision_tower of Gemma4ForConditionalGeneration" in (
        run / "train" / "training_log.txt").read_text()


@pytest.fixture(scope="module")
def exported(run: Path) -> Exported:
    return export_run(run, run.with_name("out"))


def test_an_export_is_the_whole_model_with_the_text_part_trained(whole: Path, run: Path, exported: Exported) -> None:
    out = exported.directory
    before, after = TensorFile(whole / "model.safetensors"), TensorFile(out / "model.safetensors")
    assert set(before.names()) == set(after.names())
    changed = {name for name in before.names() if not np.array_equal(before.read(name), after.read(name))}
    assert changed
    assert all(name.startswith("model.language_model.") for name in changed)
    frozen = {name for name in before.names() if name.endswith(("layer_scalar", "embed_tokens_per_layer.weight"))}
    assert frozen
    assert not changed & frozen
    model, said = transformers.Gemma4ForConditionalGeneration.from_pretrained(out, output_loading_info=True)
    assert not said["missing_keys"]
    assert not said["unexpected_keys"]
    assert (out / "processor_config.json").read_bytes() == (whole / "processor_config.json").read_bytes()
    shape = from_hf_config(json.loads((out / "config.json").read_text()))
    assert shape == ModelShape(**json.loads((run / "config" / "model_shape.json").read_text()))
    trained = TensorFile(next((run / "checkpoints").glob("*/model.safetensors")))
    stored = model_weights(out, shape)
    for name in tensor_shapes(shape):
        np.testing.assert_array_equal(stored.read(name), trained.read(name), err_msg=name)
    with torch.no_grad():
        assert torch.isfinite(model(torch.arange(3, 15)[None]).logits).all()


def test_an_export_has_what_other_tools_read_of_the_published_folder(whole: Path, exported: Exported) -> None:
    out = exported.directory
    assert exported.carried_over == {"from": "whole", "files": list(TAKEN)}
    for name in TAKEN:
        assert (out / name).read_bytes() == (whole / name).read_bytes()
        assert exported.files[name]
    generation = json.loads((out / "generation_config.json").read_text())
    # What is never written is the published model's; how long and how warm is the run's.
    assert (generation["suppress_tokens"], generation["do_sample"]) == ([7], False)
    assert "temperature" not in generation
    assert json.loads((out / "config.json").read_text())["eos_token_id"] == generation["eos_token_id"]


def test_files_of_another_tokenizer_are_left_and_a_missing_folder_is_said(whole: Path, run: Path, tmp_path: Path
                                                                          ) -> None:
    opened, out = open_run(run), tmp_path / "out"
    out.mkdir()
    tokenizer = (whole / "tokenizer.json").read_text()
    (whole / "tokenizer.json").write_text(tokenizer.replace('"<answer>"', '"<solution>"'))
    try:
        carried = carry_over(opened, out)
    finally:
        (whole / "tokenizer.json").write_text(tokenizer)
    assert carried["files"] == ["LICENSE", "USE_POLICY.md"]
    assert carried["left"] == dict.fromkeys(("tokenizer.model", "added_tokens.json"), OTHER_TOKENIZER)
    assert sorted(path.name for path in out.iterdir()) == ["LICENSE", "USE_POLICY.md"]
    with moved(whole):
        assert "are not in" in carry_over(opened, out)["absent"]


def test_an_export_without_the_weights_it_began_with_is_refused(whole: Path, run: Path, tmp_path: Path) -> None:
    with moved(whole), pytest.raises(RequestError, match="are not in"):
        export_run(run, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("family", TOWERS)
def test_peft_puts_adapters_on_the_text_part_of_the_whole_model_and_on_nothing_else(family: str,
                                                                                    tmp_path: Path) -> None:
    shape = from_hf_config(to_hf_config(tiny_shape(family)))
    whole_model(family, shape).save_pretrained(tmp_path / "base")
    engine = TorchEngine.open(request(shape, method=LoraConfig(
        name="lora", rank=2, alpha=4, target_modules=("q_proj", "down_proj"))))
    out = tmp_path / "out"
    out.mkdir()
    engine.export(engine.step(engine.init(0), random_batch(shape), 1e-2)[0], out)
    file = TensorFile(out / "adapter" / ADAPTER_FILE)
    adapters = {name: np.array(file.read(name)) for name in file.names()}
    merge_non_text_weights(out, tmp_path / "base", shape)

    stored = TensorFile(out / "adapter" / ADAPTER_FILE)
    # vLLM turns it into `language_model.model.` of its classes.
    assert all(name.startswith("base_model.model.model.language_model.layers.") for name in stored.names())
    assert len(stored.names()) == len(adapters)
    model = peft.PeftModel.from_pretrained(whole_model(family, shape), out / "adapter")
    there = {name.replace(".default.", "."): x for name, x in model.named_parameters() if "lora_" in name}
    assert set(there) == set(stored.names())
    for name, values in adapters.items():
        renamed = name.replace(IN_TEXT, "base_model.model.model.language_model.", 1)
        np.testing.assert_array_equal(there[renamed].detach().numpy(), values, err_msg=name)
