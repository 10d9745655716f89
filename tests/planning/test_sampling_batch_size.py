"""How many completions are drawn at a time, by what they hold in memory."""

import pytest

from workings.config.training import PrecisionConfig
from workings.engines.base import EngineRequest, GenerationShape
from workings.hardware.device import DeviceFacts
from workings.models.shape import ModelShape
from workings.planning.memory_formulas import forward_program_parts
from workings.runs.sample import completions_at_a_time

REQUEST = EngineRequest(
    shape=ModelShape(family="gemma", layers=4, width=256, mlp_width=512, heads=4, kv_heads=2, head_dim=64,
                     vocab_size=1000, context=4096),
    device="gpu", precision=PrecisionConfig())


def device(limit: int) -> DeviceFacts:
    return DeviceFacts(platform="gpu", kind="test", count=1, memory_limit_bytes=limit, memory_limit_source="the test",
                       mesh={"fsdp": 1, "tp": 1}, versions={}, reason="test")


def held(rows: int, *, moments: bool) -> int:
    """Bytes for this many prompts of 128 tokens and 200 new tokens."""
    parts = forward_program_parts(REQUEST, "drawing", GenerationShape(rows, 128, 200), 1, 1, "gpu")
    return sum(size for name, size in parts.items() if moments or name != "moments")


@pytest.mark.parametrize("rows", [1, 16, 64])
@pytest.mark.parametrize("moments", [True, False])
def test_the_largest_power_of_two_below_nine_tenths_of_the_memory(rows: int, moments: bool) -> None:
    asked = {"longest": 100, "new_tokens": 200, "can_train": moments}
    limit = int(held(rows, moments=moments) / 0.9) + 1
    found, why = completions_at_a_time(REQUEST, device(limit), **asked)
    assert (found, f"{rows} completions at a time: fits" in why, "estimated" in why) == (rows, True, True)
    assert completions_at_a_time(REQUEST, device(held(rows, moments=moments)), **asked)[0] == max(1, rows // 2)


def test_never_more_than_an_engine_answers_at_a_time_and_never_none() -> None:
    assert completions_at_a_time(REQUEST, device(1 << 50), longest=100, new_tokens=200, can_train=True)[0] == 128
    one, why = completions_at_a_time(REQUEST, device(1000), longest=100, new_tokens=200, can_train=True)
    assert (one, "does not fit" in why) == (1, True)
