"""The trace of a step: what it counts against what tensors really take, and the replay of the allocator by hand."""

import json
from dataclasses import replace
from typing import Any

import pytest
import torch

from tests.engines.tiny import request, tiny_shape
from tests.engines.torch_oracle import FORMS
from tests.engines.torch_two_processes import TRACED, TRACED_SHAPE, TRACED_SIZE
from workings.config.method import QloraConfig
from workings.config.training import AdafactorConfig, AdamWConfig, MemoryConfig, MeshConfig, PrecisionConfig
from workings.engines.base import GenerationShape, program_shape
from workings.engines.torch.memory_regions import region
from workings.engines.torch.spec import build_spec
from workings.engines.torch.step import empty_state
from workings.engines.torch.trace.allocator import MIB, PAGE, CachingAllocator, Event, OutOfMemory, live_peak
from workings.engines.torch.trace.inspect import TracedCard, inspect_program, inspect_step, trace
from workings.engines.torch.trace.programs import PROGRAMS
from workings.engines.torch.trace.tracker import LiveStorages
from workings.errors import RequestError
from workings.models.batch import BatchShape
from workings.models.weights import parameter_count

pytestmark = pytest.mark.slow

SHAPE = tiny_shape("gemma", vocab=3000)
SIZE = BatchShape(1, 2, 32)


def sizes(*events: int) -> list[Event]:
    """Positive numbers allocate, -n frees the n-th allocation (from 1)."""
    made = 0
    log = []
    for event in events:
        made += event > 0
        log.append(Event(made, event) if event > 0 else Event(-event, -1))
    return log


@pytest.mark.parametrize(("events", "reserved"), [
    ([1], 2 * MIB),  # a small segment
    ([1, 2 * MIB], 22 * MIB),  # one of 20 MiB next to it
    ([MIB, MIB, MIB], 4 * MIB),  # two in a small segment
    ([11 * MIB + 1], 12 * MIB),  # its own segment, rounded to 2 MiB
    ([12 * MIB, -1, 4 * MIB, 7 * MIB], 12 * MIB),  # split again after it was freed
    ([12 * MIB, -1, 4 * MIB, 7 * MIB, -2, -3, 12 * MIB], 12 * MIB),  # neighbours joined
    ([12 * MIB, -1, 13 * MIB], 26 * MIB),  # too small a piece is no help
])
def test_the_caching_allocator_by_hand(events: list[int], reserved: int) -> None:
    assert CachingAllocator().replay(sizes(*events)).peak_reserved == reserved


def test_a_full_card_gives_cached_segments_back_before_it_gives_up() -> None:
    events = sizes(12 * MIB, -1, 14 * MIB)
    assert CachingAllocator().replay(events).peak_reserved == 26 * MIB
    full = CachingAllocator(limit=20 * MIB).replay(events)
    assert (full.peak_reserved, full.given_back) == (14 * MIB, 1)
    with pytest.raises(OutOfMemory):
        CachingAllocator(limit=13 * MIB).replay(events)


def test_storages_are_followed_from_birth_to_death() -> None:
    """Views are no storages; a tensor counts until no one has it; regions name what is made in them."""
    live = LiveStorages()
    with live:
        a = torch.ones(1000)
        b = a.view(10, 100)[3]
        with region("mine"):
            c = a + 1
        del a, c
        d = torch.ones(10)
        del b
        e = torch.ones(2000)
    peak = live_peak(live.log.events, 4)
    assert (peak.size, peak.categories) == (8040, {"activations": 8040})
    first = live_peak(live.log.events[:2], 4)
    assert (first.size, first.categories) == (8000, {"activations": 4000, "mine": 4000})
    assert live_peak(live.log.events[:2], PAGE).size == 2 * PAGE
    assert d.numel() + e.numel() == 2010


def test_gradients_that_autograd_adds_in_place_are_counted_once() -> None:
    """A matrix used twice: under a dispatch mode autograd itself would make a third buffer for the sum."""
    weight = torch.nn.Parameter(torch.ones(100, 100))
    x = torch.ones(1, 100)
    live = LiveStorages()
    live.hold([weight], "parameters")
    live.watch_gradients([weight])
    with live:
        (x @ weight @ weight).sum().backward()
    peak = live_peak(live.log.events, 4)
    assert weight.grad is not None
    assert 3 * 40000 <= peak.size < 3 * 40000 + 4000
    assert torch.equal(weight.grad, 100 * torch.ones(100, 100) + 100)


@pytest.mark.parametrize("changes", [
    {}, {"memory": MemoryConfig(remat="layer", loss_chunk=8, optimizer_in_backward=True),
         "optimizer": AdafactorConfig(name="adafactor")},
    pytest.param({"precision": PrecisionConfig(parameters="bf16", compute="fp32", rounding="stochastic")},
                 marks=pytest.mark.full),
    {"method": QloraConfig(name="qlora", rank=2), "shape": tiny_shape("gemma", vocab=3000, width=64, mlp_width=64)},
    {"shape": replace(tiny_shape("qwen3_5", vocab=3000), layers=2)},
    *(pytest.param({"shape": tiny_shape("gemma4", vocab=3000, **FORMS[form][1])}, marks=pytest.mark.full)
      for form in ("gemma4 E2B", "gemma4 31B", "gemma4 26B-A4B")),
])
def test_a_trace_sees_what_a_real_step_allocates(changes: dict[str, Any]) -> None:
    """The same counter on real tensors and on fake ones: the same peak, but for what few tensors hold.

    Of Qwen 3.5 two chunks of a state and a layer that attends, of Gemma 4 shared keys and experts.
    """
    asked = request(**{"shape": SHAPE} | changes)
    spec = build_spec(asked, torch.device("cpu"))
    fake = live_peak(trace(spec, "step", SIZE).events, 512)
    live = LiveStorages()
    state = empty_state(spec)
    for param in state.model.parameters():
        if param.is_floating_point():
            param.data.fill_(0.01)
    live.hold([*state.model.parameters(), *state.model.buffers()], "parameters")
    for of in state.moments.values():
        live.hold(of.values(), "moments")
    with live:
        PROGRAMS["step"](spec, state, SIZE)
    real = live_peak(live.log.events, 512)
    assert fake.size == pytest.approx(real.size, rel=0.01)
    assert fake.categories["parameters"] > 0


def peak(shape: Any = SHAPE, **changes: Any) -> int:
    return inspect_step(request(shape, **changes), BatchShape(1, 4, 64), "cpu").peak_bytes


def test_parameters_and_moments_are_exact_and_savings_show() -> None:
    adamw = inspect_step(request(SHAPE), SIZE, "cpu")
    count = parameter_count(SHAPE)
    assert adamw.source == "traced"
    assert 4 * count <= adamw.breakdown["parameters"] < 4 * count + 50 * PAGE
    assert 8 * count <= adamw.breakdown["moments"] < 8 * count + 100 * PAGE
    assert adamw.peak_bytes == sum(adamw.breakdown.values())
    adafactor = {"optimizer": AdafactorConfig(name="adafactor")}
    whole, chunked = peak(**adafactor), peak(**adafactor, memory=MemoryConfig(loss_chunk=64))
    assert whole - chunked > 4 * 3000 * 100  # logits of 256 positions and of 64
    deep = tiny_shape("gemma", vocab=61, layers=3, mlp_width=2000)
    kept, freed = (peak(deep, **adafactor, memory=MemoryConfig(remat="layer", optimizer_in_backward=inside))
                   for inside in (False, True))
    assert kept - freed > 4 * parameter_count(deep) / 2  # gradients of two layers of three


def test_a_card_has_context_workspaces_and_its_own_attention() -> None:
    asked = request(SHAPE, precision=PrecisionConfig(parameters="bf16", compute="bf16", rounding="stochastic"))
    card = TracedCard(capability="7.5", limit_bytes=2 ** 30)
    found = inspect_step(asked, SIZE, "gpu", card)
    assert found.peak_bytes == sum(found.breakdown.values())
    assert (found.peak_bytes - found.breakdown["CUDA context"]) % (2 * MIB) == 0
    assert found.breakdown["cuBLAS workspaces"] == 2 * 8519680
    assert "compute capability 8.0" in found.notes[-1]
    newer = inspect_step(asked, SIZE, "gpu", TracedCard(capability="9.0"))
    assert not any("compute capability" in note for note in newer.notes)
    assert newer.breakdown["cuBLAS workspaces"] == 64 * MIB
    assert any("workspace inside of kernels" in note for note in newer.notes)
    full = inspect_step(asked, SIZE, "gpu", TracedCard(capability="9.0", limit_bytes=420 * MIB))
    assert any("would give up on this card" in note for note in full.notes)
    assert full.peak_bytes > 420 * MIB


def test_evaluation_and_generation_are_traced_beside_the_state() -> None:
    asked = request(SHAPE, optimizer=AdamWConfig(name="adamw"))
    state = 12 * parameter_count(SHAPE)
    found = {name: inspect_program(asked, name, program_shape(name, size), "cpu", TracedCard()).peak_bytes - state
             for name, size in {"evaluation": (1, 2, 32), "generation": (4, 32, 16)}.items()}
    assert all(0 < size < 4 * state for size in found.values())
    longer = inspect_program(asked, "generation", GenerationShape(4, 32, 4096), "cpu", TracedCard()).peak_bytes - state
    cache = 2 * SHAPE.layers * 4 * SHAPE.kv_heads * SHAPE.head_dim * 4 * (32 + 4096 - 1)
    assert cache < longer < 4 * cache + found["generation"]


def test_of_several_processes_one_draws_its_share() -> None:
    """Six groups of four on two processes: twelve rows each, as one process alone draws of three groups."""
    asked = request(tiny_shape("gemma", vocab=300), completions_of_a_prompt=4)

    def activations(groups: int, fsdp: int) -> int:
        on_mesh, size = replace(asked, mesh=MeshConfig(fsdp=fsdp)), GenerationShape(4 * groups, 64, 256)
        return inspect_program(on_mesh, "drawing", size, "cpu", TracedCard()).breakdown["activations"]

    whole, half, shared = activations(6, 1), activations(3, 1), activations(6, 2)
    assert half == pytest.approx(shared, rel=0.05)
    assert whole > 1.9 * half


def test_the_trace_refuses_what_the_engine_refuses() -> None:
    asked = request(SHAPE, memory=MemoryConfig(optimizer_in_backward=True))
    with pytest.raises(RequestError, match=r"batch.accumulation: 2"):
        inspect_step(asked, BatchShape(2, 1, 32), "cpu")
    with pytest.raises(RequestError, match="optimizer_in_backward: true cannot be split among 2 processes"):
        inspect_step(replace(asked, mesh=MeshConfig(fsdp=2)), SIZE, "cpu")


@pytest.mark.full
@pytest.mark.parametrize("case", TRACED)
def test_the_trace_of_one_of_two_processes_is_what_each_of_two_real_ones_holds(run_ranks, case: str) -> None:
    """The same step in two processes with gloo, followed storage by storage."""
    found = json.loads(run_ranks("tests.engines.torch_two_processes", case).splitlines()[-1])
    head = 4 * TRACED_SHAPE.vocab_size * TRACED_SHAPE.width
    traced = inspect_step(TRACED[case], TRACED_SIZE, "cpu")
    assert "traced per device, world 2" in traced.notes[-1]
    assert traced.peak_bytes == pytest.approx(found["peak"], rel=0.002)
    alone = inspect_step(replace(TRACED[case], mesh=MeshConfig(fsdp=1)), TRACED_SIZE, "cpu")
    shares = [one.breakdown["parameters"] + one.breakdown["moments"] for one in (traced, alone)]
    assert 0.49 < shares[0] / shares[1] < 0.6
    assert traced.breakdown["gathered parameters"] > head / 2
    assert "gathered parameters" not in alone.breakdown
