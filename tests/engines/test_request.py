"""What an engine is asked for: from a recipe, and to a child process and back."""

import pytest

from tests.planning.planning_helpers import recipe, shape
from workings.engines.base import EngineRequest


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
