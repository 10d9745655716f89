"""How long a step would take at least, from operations, the machine's rates and a stated efficiency."""

from workings.engines.base import EngineRequest
from workings.hardware.catalog import Target
from workings.models.weights import layer_shapes

EFFICIENCY = 0.4
"""Share of the peak rate that a tuned training step reaches (published: Levanter 35 to 54 %, MaxText 39.8 %)."""


def step_operations(request: EngineRequest, batch: tuple[int, int, int]) -> float:
    """Floating-point operations of one update over all devices: matrix products only, a multiply and an add each.

    Forward is 2 x parameters in matrices x tokens, backward twice that, and with ``remat: layer`` the layers' forward
    once more. Attention scores count the causal half. The vocabulary-sized product is never computed again.
    """
    shape = request.shape
    rows, length = batch[0] * batch[1], batch[2]
    tokens = rows * length
    matrices = shape.layers * sum(size[0] * size[1] for size in layer_shapes(shape).values() if len(size) == 2)
    attention = 2 * 2 * shape.layers * shape.heads * shape.head_dim * rows * length * (length + 1) / 2
    layers = 2.0 * matrices * tokens + attention
    head = 2.0 * shape.vocab_size * shape.width * tokens
    passes = 4 if request.memory.remat == "layer" else 3
    return passes * layers + 3 * head


def step_seconds(request: EngineRequest, batch: tuple[int, int, int], target: Target,
                 devices: int) -> tuple[float | None, str]:
    """Seconds of one step, and how they came about; None and the reason where no rate is known."""
    compute = request.precision.compute
    if compute not in target.rates_tflops or not target.bandwidth_gb_s:
        return None, f"no step time: the catalog has no {compute} rate for {target.name}"
    rate = target.rates_tflops[compute]
    operations = step_operations(request, batch)
    seconds = operations / (rate * 1e12 * EFFICIENCY * devices)
    return seconds, (f"step time: {operations:.3g} operations at {EFFICIENCY:.0%} of {devices} x {rate:g} Tflop/s "
                     f"({compute}); an assumption about efficiency, not a measurement")
