"""What an engine is asked for: from a recipe, and to a child process and back."""

from dataclasses import replace

import pytest

from tests.planning.planning_helpers import recipe, shape
from workings.engines.base import EngineRequest
from workings.planning.memory_formulas import checkpoint_bytes, exact_parts


@pytest.mark.parametrize("changes", [
    {}, {"optimizer": {"name": "muon"}, "data": {"traces": "addition", "max_length": 64, "packing": "first_fit"}},
    {"method": {"name": "qlora", "rank": 2}, "device": "cuda", "engine": "torch"}])
def test_a_request_survives_being_written_down(changes: dict) -> None:
    asked = EngineRequest.of(recipe(**changes), shape())
    again = EngineRequest.from_json(asked.to_json())
    assert again.to_json() == asked.to_json()
    assert again.optimizer.model_dump() == asked.optimizer.model_dump()
    assert asked.packed == ("data" in changes)
    assert asked.device == ("gpu" if changes.get("device") == "cuda" else "auto")


def test_a_checkpoint_holds_what_is_trained_and_its_state() -> None:
    asked = EngineRequest.of(recipe(), shape())
    parts = exact_parts(asked, (1, 1, 1), 1, 1)
    assert checkpoint_bytes(asked) == parts["parameters"] + parts["moments"] == 3 * parts["parameters"]
    masters = replace(asked, precision=asked.precision.model_copy(update={"parameters": "bf16",
                                                                          "rounding": "master_fp32"}))
    assert checkpoint_bytes(masters) == (2 + 8 + 4) * parts["parameters"] // 4
