"""Two processes on loopback: one's losses, a checkpoint that goes there and back, refusals."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from tests.engines.tiny import request, same_tensors, tiny_shape
from tests.engines.torch_two_processes import CASES, GROUPS, curve, drawn, engine, report
from workings.config.training import AdamW8bitConfig
from workings.engines.torch.sharding import ProcessMesh, find_mesh
from workings.errors import RequestError


@pytest.mark.parametrize("case", [
    case if case in ("lora bf16", "copies", "whole copies") else pytest.param(case, marks=pytest.mark.full)
    for case in CASES])
def test_two_processes_go_on_like_one_and_come_back(case: str, run_ranks: Callable[..., str], tmp_path: Path) -> None:
    """Saved by one, continued by two, restored by one. Splits that do not come out even, a micro batch without
    supervised tokens for one process, clipping, weight decay, masters, adapters next to frozen weights. The shards of
    the two have the same bits as the whole files; one process restores them, and two continue from them. With two split
    copies there are four processes. The second copy's shards are empty."""
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    (after / "exported").mkdir(parents=True)
    (after / "shards").mkdir()
    one = engine(case, 1)
    state, _ = curve(one, one.init(0), 3)
    one.save(state, before)
    state, expected = curve(one, state, 3, 3)
    straight = {"curve": expected} | report(one, state)
    processes = 4 if case == "copies" else 2
    found = json.loads(run_ranks("tests.engines.torch_two_processes", case, before, after,
                                 processes=processes).splitlines()[-1])
    # Gradients in bf16 are rounded before they are added; six layers with gradient norms of 50 round more than two, and
    # so do layers with a state.
    tolerance = {"mixed": 2e-3, "kernels": 2e-3, "gemma4": 5e-4, "gemma4 lora": 5e-4, "qwen3_5": 4e-5}.get(case, 2e-5)
    np.testing.assert_allclose(found["curve"], straight["curve"], rtol=tolerance)
    assert found["held"] == 0 if case == "whole copies" else 0.45 < found["held"] < 0.65
    np.testing.assert_allclose(found["held_out"], straight["held_out"], rtol=tolerance)
    if case != "mixed":
        assert found["tokens"] == straight["tokens"]
    assert found["resumed"] == found["after"], "to the bit"
    same_tensors(after, after / "shards", count=processes)
    restored = one.restore(after / "shards")
    assert restored.step == 6
    for name, x in restored.trained.items():
        absolute = {"mixed": 1e-3, "kernels": 1e-3, "gemma4": 1e-3, "gemma4 lora": 1e-3}.get(case, 2e-5)
        torch.testing.assert_close(x, state.trained[name], atol=absolute, rtol=1e-2)
    for slot, tree in restored.moments.items():
        assert tree.keys() == state.moments[slot].keys()
    exported = tmp_path / "exported"
    exported.mkdir()
    one.export(restored, exported)
    files = [path.relative_to(exported) for path in exported.rglob("*.safetensors")]
    assert len(files) == (2 if "method" in CASES[case] else 1)
    for path in files:  # merged weights and adapters, as one process writes them from the same checkpoint
        ours, theirs = load_file(exported / path), load_file(after / "exported" / path)
        assert ours.keys() == theirs.keys()
        for name, x in ours.items():
            torch.testing.assert_close(x, theirs[name], atol=1e-6, rtol=1e-2 if x.dtype == torch.bfloat16 else 1e-5)
    assert (after / "exported" / "config.json").is_file()
    # A weight at the border of rounding may change in one of them only.
    np.testing.assert_allclose(found["after"], curve(one, state, 1, 6)[1], rtol=tolerance, atol=1e-4)


@pytest.fixture(scope="module")
def of_adapters(run_ranks: Callable[..., str]) -> dict[str, Any]:
    """Report of two processes on a model with adapters; each has half of the rows and of the weights."""
    found: dict[str, Any] = json.loads(run_ranks("tests.engines.torch_two_processes").splitlines()[-1])
    return found


def test_log_probs_of_a_step_and_the_model_below_adapters_in_two_processes(of_adapters: dict[str, Any]) -> None:
    assert of_adapters["step"] < 1e-5
    assert of_adapters["below"] < 1e-5 < of_adapters["moved"]


def test_each_of_two_processes_draws_its_share_and_has_all_completions(of_adapters: dict[str, Any]) -> None:
    """Groups that are read once, one prompt for two processes, an odd number of prompts, one group for both. Rows end
    at different tokens, and both processes make the same number of passes nevertheless."""
    expected = drawn(engine("lora", 1))
    first, second = of_adapters["drawn"]
    for name, read, share in (("groups", 2, 8), ("one", 1, 1), ("three", 2, 2), ("same", 1, 3)):
        prompts = GROUPS[name]
        rows = [each[name]["rows"] for each in (first, second)]
        assert first[name]["completions"] == second[name]["completions"], "to the bit"
        assert [each[:3] for each in first[name]["completions"]] == [
            each[:3] for each in expected[name]["completions"]]
        for each, alone in zip(first[name]["completions"], expected[name]["completions"], strict=True):
            np.testing.assert_allclose(each[3], alone[3], atol=1e-5)
        assert len(rows[0]) == len(rows[1]) == len(expected[name]["rows"])
        # The first pass reads a prompt once for all its rows; then each process writes for its own.
        assert rows[0][0] == rows[1][0] == read
        assert max(rows[0][1:]) <= share >= max(rows[1][1:])
        assert max(expected[name]["rows"]) == len(prompts)
    ends = [len(each[0]) for each in expected["groups"]["completions"][:12]]
    assert max(ends[:6]) != max(ends[6:])


def test_layers_are_gathered_once_for_a_batch_of_answers_if_they_fit(of_adapters: dict[str, Any]) -> None:
    """Three layers and the rest of the model; six tokens of each answer. Training splits the layers again."""
    small, large = of_adapters["gathered"]["small"], of_adapters["gathered"]["large"]
    assert (small.pop("gathers"), large.pop("gathers")) == (1 + 6 * 3, 1 + 3)
    assert small == large, "tokens, and the step after them"


def test_rows_are_split_among_processes() -> None:
    assert [ProcessMesh(fsdp=4, rank=rank).rows(8) for rank in (0, 3)] == [slice(0, 2), slice(6, 8)]
    with pytest.raises(RequestError, match="6 rows per micro batch cannot be split over fsdp=4"):
        ProcessMesh(fsdp=4).rows(6)


def test_what_cannot_be_split_is_refused(monkeypatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(RequestError, match="adamw8bit cannot be split among 2 processes"):
        find_mesh(request(tiny_shape(), optimizer=AdamW8bitConfig(name="adamw8bit")), "cpu")
