"""Features of a request that our engines do not have. Plans use these checks, too, so no framework is loaded."""

from collections.abc import Iterable, Iterator

from workings.config.section import choice_name
from workings.config.training import OPTIMIZERS, AdafactorConfig
from workings.engines.base import EngineRequest, MeshShape, Refusal
from workings.errors import RequestError
from workings.models.registry import family_of
from workings.models.weights import tensor_shapes


def refuse(refusals: Iterable[Refusal]) -> None:
    """Raise the first refusal, if there is one."""
    for refusal in refusals:
        raise refusal


def refuse_uneven_rows(rows: int, mesh: MeshShape) -> None:
    """Raise `RequestError` for a micro batch whose rows the devices cannot share evenly."""
    if rows % mesh.row_devices == 0:
        return
    if mesh.replicate > 1:
        names, axes = "replicate x fsdp", f"replicate x fsdp = {mesh.replicate} x {mesh.fsdp}"
        overrides = "mesh.replicate=1 mesh.fsdp=1"
    else:
        names, axes, overrides = "fsdp", f"fsdp={mesh.fsdp}", "mesh.fsdp=1"
    raise RequestError(f"{rows} rows per micro batch cannot be split over {axes}", f"rows divisible by {names}",
                       f"a batch of {mesh.row_devices} rows, or {overrides}")


def jax_refusals(request: EngineRequest) -> Iterator[Refusal]:
    """Refusals of 8-bit moments, the optimizer in backward, fp16, and families that only engine torch has."""
    shape = request.shape
    yield from _optimizer(request, "jax")
    if request.memory.optimizer_in_backward:
        yield Refusal("memory.optimizer_in_backward", "engine jax does not take memory.optimizer_in_backward: true",
                      "false: the compiled step donates its state and frees each gradient as it is used",
                      "leave it out, or engine=torch")
    yield from _table_on_host(request, "jax")
    if request.precision.compute == "fp16":
        yield Refusal("fp16", "engine jax does not take precision.compute: fp16",
                      "fp32 or bf16: this engine has no products in fp16", "engine=torch, or precision.compute=bf16")
    try:
        family_of(shape).check_engine("jax", shape)
    except RequestError as error:
        yield Refusal(f"family {shape.family}", error.given, error.expected, error.try_next)


def torch_refusals(request: EngineRequest) -> Iterator[Refusal]:
    """Refusals of matrices split among devices, recomputation of parts of a layer, Muon, packed states, and TPUs."""
    shape, remat = request.shape, request.memory.remat
    if remat not in ("none", "layer"):
        yield Refusal(f"memory.remat {remat}", f"engine torch does not take memory.remat: {remat}",
                      "none or layer", "memory.remat=layer, or engine=jax")
    if request.mesh.tp > 1:
        yield Refusal("mesh.tp above 1", f"engine torch does not take mesh.tp: {request.mesh.tp}",
                      "tp of 1: this engine splits rows and parameters, not matrices", "mesh.tp=1")
    yield from _optimizer(request, "torch")
    yield from _table_on_host(request, "torch")
    # Whether an unverified model has a state is only known when it is opened.
    if request.packed and shape.verified and shape.has_state:
        yield Refusal("packed rows in layers with a state", f"data.packing does not work with a {shape.family} model",
                      "one row per sequence: its layers keep a state of the row before", "data.packing=none")
    yield from _half(request)
    yield from _own_class(request)
    if request.device == "tpu":
        yield Refusal("a TPU", "engine torch cannot use a TPU", "device cpu or gpu, or engine jax", "engine=jax")


def _optimizer(request: EngineRequest, engine: str) -> Iterator[Refusal]:
    """Refusal of an optimizer that the engine does not have (`OptimizerFields.engines`)."""
    config = request.optimizer
    if engine not in config.engines:
        *names, last = (choice_name(each) for each in OPTIMIZERS if engine in each.engines)
        yield Refusal(f"optimizer {config.name}", f"engine {engine} does not have optimizer.name: {config.name}",
                      f"{', '.join(names)} or {last}", f"optimizer.name=adamw, or engine={config.engines[0]}")


def _table_on_host(request: EngineRequest, engine: str) -> Iterator[Refusal]:
    """Refusal of `memory.per_layer_embeddings: host` for a model without them, or an engine other than torch."""
    asked, feature = "memory.per_layer_embeddings: host", "per-layer embeddings on the host"
    if request.memory.per_layer_embeddings == "device":
        return
    if not request.shape.per_layer_width:
        yield Refusal(feature, f"a {request.shape.family} model has no table for {asked}",
                      "device: there is nothing to keep on the host", "memory.per_layer_embeddings=device")
    elif engine != "torch":
        yield Refusal(feature, f"engine {engine} does not take {asked}",
                      "device: this engine holds all weights on the device",
                      "memory.per_layer_embeddings=device, or engine=torch")


def _half(request: EngineRequest) -> Iterator[Refusal]:
    """Refusal of `precision.compute: fp16` for layers without products in fp16."""
    shape = request.shape
    if request.precision.compute != "fp16":
        return
    if shape.experts:
        what = "experts"
    elif not shape.verified:
        what = "a class that is not verified"
    else:
        return
    yield Refusal(f"fp16 with {what}", f"precision.compute: fp16 does not work with {what} of a {shape.family} model",
                  "fp32 or bf16: only attention and feed-forward layers have products in fp16",
                  "precision.compute=fp32")


def _own_class(request: EngineRequest) -> Iterator[Refusal]:
    """Refusals for experts and unverified models, which are computed by transformers' own modules."""
    shape, precision = request.shape, request.precision
    if shape.verified and not shape.experts:
        return
    what = "experts" if shape.experts else "model.verified: false"
    if precision.parameters != precision.compute:
        yield Refusal(f"two number formats with {what}",
                      f"precision.parameters: {precision.parameters} and precision.compute: {precision.compute} do not "
                      f"work with {what}",
                      "one format for both: these modules of transformers compute in their storage format",
                      f"precision.compute={precision.parameters}")
    if isinstance(request.optimizer, AdafactorConfig) and request.method.name == "full":
        block = next((name for name, size in tensor_shapes(shape).items() if len(size) > 2), None)
        if block is not None:
            yield Refusal(f"Adafactor with {what}",
                          f"optimizer.name: adafactor cannot train {block}: it has more than two axes",
                          "an optimizer that does not factor: Adafactor has a rule for matrices",
                          "optimizer.name=adamw")
