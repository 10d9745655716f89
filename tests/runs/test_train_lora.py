"""A LoRA run on weights from a folder: stopped, resumed, verified, opened."""

import shutil
from pathlib import Path

import pytest

from tests.engines.tiny import request, tiny_shape
from tests.runs.runs_helpers import forty_additions, last_weights, resumed_bit_for_bit
from workings.engines.torch.engine import TorchEngine
from workings.errors import RecordError, RequestError
from workings.evidence.verify import verify
from workings.models.tokenizer_training import train_tokenizer
from workings.runs.open_model import open_run
from workings.runs.train import train

pytestmark = pytest.mark.slow
WORDS = ["model={source: pretrained, id: base}", "tokenizer=model", "data.template=plain", "training.steps=4",
         "training.learning_rate=1e-2", "evaluation={}", "engine=torch",
         "method={name: lora, rank: 4, alpha: 8, dropout: 0.1, target_modules: [q_proj, v_proj, down_proj]}"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a base model and its tokenizer in `base`, and a recipe that names it."""
    from workings.config.load import shipped_recipes

    place = tmp_path_factory.mktemp("lora")
    base = place / "base"
    base.mkdir()
    traces, _ = forty_additions()
    tokenizer = train_tokenizer((trace.prompt for trace in traces), 512)
    tokenizer.save(base)
    engine = TorchEngine.open(request(tiny_shape(vocab=tokenizer.vocab_size)))
    engine.export(engine.init(0), base)
    (place / "recipe.yaml").write_text(shipped_recipes()["smoke-tiny"])
    train(str(place / "recipe.yaml"), place / "runs" / "straight", WORDS)
    return place


def test_a_stopped_run_resumes_bit_for_bit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = resumed_bit_for_bit(TorchEngine, folder, WORDS, monkeypatch)
    assert sorted(last_weights(out)) == [
        "step_000004/adapter_model.safetensors", "step_000004/optimizer.safetensors"]
    assert verify(out).failed == 0
    assert open_run(out).checkpoint.step == 4  # `base` is found from the run's place, regardless of the current folder


def test_other_base_weights_are_refused_and_missing_ones_named(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "runs" / "straight", tmp_path / "a" / "b" / "c" / "d" / "run")
    with pytest.raises(RequestError, match="started from are not in base"):
        open_run(tmp_path / "a" / "b" / "c" / "d" / "run")
    shutil.copytree(folder / "base", tmp_path / "a" / "b" / "c" / "d" / "base")
    changed = tmp_path / "a" / "b" / "c" / "d" / "base" / "model.safetensors"
    data = bytearray(changed.read_bytes())
    data[-1] ^= 1
    changed.write_bytes(data)
    with pytest.raises(RecordError, match=r"model\.safetensors differ from the digests"):
        open_run(tmp_path / "a" / "b" / "c" / "d" / "run")
