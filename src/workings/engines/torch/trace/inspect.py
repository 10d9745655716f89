"""Memory of a program by a trace of the program itself with fake tensors. Nothing is computed or allocated."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from itertools import chain
from time import monotonic

import torch
import torch.distributed as dist
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing._internal.distributed.fake_pg import FakeStore

from workings.engines.base import EngineRequest, Inspection, ProgramName, ProgramShape
from workings.engines.source_digest import library_versions
from workings.engines.torch.attention import choose
from workings.engines.torch.backward_optimizer import refuse_conflicts
from workings.engines.torch.mask_check import grouped_products, refuse_unsuited
from workings.engines.torch.planning import LIBRARIES, TracedCard
from workings.engines.torch.sharding import ProcessMesh, per_layer_table, refuse_unsplit
from workings.engines.torch.spec import TorchSpec, build_spec
from workings.engines.torch.step import State, empty_state
from workings.engines.torch.trace.allocator import MIN_BLOCK, PAGE, CachingAllocator, Event, Log, OutOfMemory, live_peak
from workings.engines.torch.trace.programs import PROGRAMS
from workings.engines.torch.trace.tracker import CONTEXT_BYTES, LiveStorages, cublas_workspace
from workings.engines.torch.triton.check import FIRST_CAPABILITY
from workings.hardware.memory import gib
from workings.models.batch import BatchShape

CONTEXT = "CUDA context"
NO_CARD = TracedCard()


def inspect_step(request: EngineRequest, batch: BatchShape, platform: str, card: TracedCard = NO_CARD) -> Inspection:
    """Trace the step of a request for a batch; see `inspect_program`."""
    return inspect_program(request, "step", batch, platform, card)


@lru_cache(maxsize=64)
def inspect_program(request: EngineRequest, program: ProgramName, size: ProgramShape, platform: str,
                    card: TracedCard) -> Inspection:
    """Trace one program of a run, for a batch of this size. Raises `RequestError` for what the engine does not do.

    The peak is live bytes on a ``cpu``. On a ``gpu`` it is what the caching allocator reserves and what CUDA takes in
    addition. ``request.mesh`` says how many processes share the rows; one of them is traced.
    """
    start = monotonic()
    refuse_conflicts(request, size[0] if program == "step" else 1)
    fsdp = request.mesh.fsdp if isinstance(request.mesh.fsdp, int) else 1
    mesh = ProcessMesh(fsdp=fsdp, replicate=request.mesh.replicate)
    if mesh.processes > 1:
        refuse_unsplit(request, mesh.processes)
    with pretended(mesh):
        spec, notes = _spec(request, platform, card, mesh)
        log = trace(spec, program, size)
    if platform == "gpu":
        found = _on_card(log, card, program)
    else:
        live = live_peak(log.events, PAGE)
        found = Inspection(
            peak_bytes=live.size, source="traced", breakdown=live.categories, peak_operator=live.operator, versions={},
            notes=("traced: the engine's own step under fake tensors, two updates; bytes that are alive at one time",))
    return replace(found, versions=library_versions(LIBRARIES), notes=(*found.notes, *notes),
                   seconds={"trace": round(monotonic() - start, 1)})


def _spec(request: EngineRequest, platform: str, card: TracedCard, mesh: ProcessMesh) -> tuple[TorchSpec, list[str]]:
    """The step on the platform, with fake tensors on the device ``cpu``; and notes about differences to a real run."""
    spec = build_spec(request, torch.device("cpu"), mesh)
    refuse_unsuited(spec)
    notes: list[str] = []
    if mesh.processes > 1:
        notes.append(f"traced per device, world {mesh.processes}: what one process of {mesh.processes} holds, with the "
                     "layers it gathers and the gradients on their way, and without the communication library's own "
                     "buffers")
    if platform != "gpu":
        return spec, notes
    attention = choose(request.memory.attention, "cuda", request.shape.attention_softcap)
    major = int(card.capability.split(".")[0]) if card.capability else FIRST_CAPABILITY
    kernels = card.kernels and major >= FIRST_CAPABILITY
    if attention == "fused" and request.precision.compute == "bf16" and major < FIRST_CAPABILITY:
        attention = "plain"
        notes.append(f"fused attention in bf16 needs compute capability 8.0; this card has {card.capability} and "
                     "PyTorch makes the whole square of scores there, which is what was traced")
    return replace(spec, on_card=True, device_bytes=card.limit_bytes, card_kernels=kernels, attention=attention), notes


def trace(spec: TorchSpec, program: ProgramName, size: ProgramShape) -> Log:
    """The events of one program of one process, from the first parameter on."""
    with FakeTensorMode(allow_non_fake_inputs=True), grouped_products(spec.compute_dtype):
        state = empty_state(spec)
        return follow(state, lambda: PROGRAMS[program](spec, state, size), on_card=spec.on_card,
                      host_table=spec.on_card and spec.table_on_host)


def follow(state: State, run: Callable[[], None], *, on_card: bool = False, host_table: bool = False) -> Log:
    """The events of ``run`` on a state, fake or real; ``host_table``: per-layer embeddings are not on the device."""
    live = LiveStorages(on_card=on_card)
    table = per_layer_table(state.model)
    live.hold((x for x in state.model.parameters() if table is None or x is not table.weight), "parameters")
    if table is not None and not host_table:
        live.hold([table.weight], "per-layer embeddings (frozen)")
    live.hold(state.model.buffers(), "buffers")
    live.hold(chain.from_iterable(of.values() for of in state.moments.values()), "moments")
    live.watch_gradients(state.trained.values())
    with live:
        run()
    return live.log


def _on_card(log: Log, card: TracedCard, program: ProgramName) -> Inspection:
    """Reserved bytes of a CUDA GPU, including those of the CUDA context, with their parts and notes."""
    workspace = cublas_workspace(card.capability)
    # One workspace for the thread of forward, one for that of backward. Keys of storages begin at 1.
    events = [*(Event(key, workspace, "cuBLAS workspaces", "first product") for key in (-1, -2)), *log.events]
    reserved = CachingAllocator().replay(events).peak_reserved
    limit_notes: list[str] = []
    if 0 < card.limit_bytes < reserved + CONTEXT_BYTES:
        limited = CachingAllocator(limit=max(1, card.limit_bytes - CONTEXT_BYTES))
        try:
            reserved = limited.replay(events).peak_reserved
            if limited.given_back:
                times = limited.given_back
                limit_notes = [f"it fits only because the allocator gives cached blocks back {times} times"]
        except OutOfMemory as error:
            limit_notes = [f"PyTorch's allocator would give up on this card: {error}"]
    peak = live_peak(events, MIN_BLOCK)
    breakdown = peak.categories | {CONTEXT: CONTEXT_BYTES}
    if reserved > peak.size:
        breakdown["reserved by the allocator, not in use"] = reserved - peak.size
    notes = [f"traced without the card: the engine's own {program} under fake tensors, then a replay of "
             f"PyTorch's allocator: {gib(peak.size)} in use, {gib(reserved)} reserved, "
             f"{gib(CONTEXT_BYTES)} assumed for CUDA itself", *limit_notes]
    if log.hidden:
        notes.append("workspace inside of kernels is declared, not seen: " + ", ".join(sorted(log.hidden)))
    return Inspection(peak_bytes=reserved + CONTEXT_BYTES, source="traced", breakdown=breakdown, versions={},
                      assumed=(CONTEXT,), peak_operator=peak.operator, notes=tuple(notes))


@contextmanager
def pretended(mesh: ProcessMesh) -> Iterator[None]:
    """Inside, this is process 0 of several that do not exist, and nothing is sent. Process 0 has the largest parts.

    Not in a program with real processes: PyTorch would use the pretended mesh's plans of communication for theirs.
    """
    if mesh.processes == 1:
        yield
        return
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=mesh.processes)
    try:
        yield
    finally:
        dist.destroy_process_group()
