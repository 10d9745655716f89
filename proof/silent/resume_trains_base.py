"""To resume an adapter leaves the base trainable: many times the parameters.

Reported: mlx-vlm#2178.
"""

from proof.silent._harness import LORA, Found, batch, learned, opened, right_if, temporary
from workings.engines.safetensors_file import TensorFile


def check(engine: str) -> Found:
    """A restored state trains the same tensors, and its base has the same bits after a step."""
    rows = batch(learned(5, 9))
    with temporary() as folder:
        base, first, second, out = (folder / name for name in ("base", "first", "second", "out"))
        for place in (base, first, second, out):
            place.mkdir()
        full = opened(engine)
        full.export(full.init(3), base)
        model = opened(engine, method=LORA, weights=base)
        state, _ = model.step(model.load(base), rows, 1e-2)
        model.save(state, first)
        again = opened(engine, method=LORA, weights=base)
        state, _ = again.step(again.restore(first), rows, 1e-2)
        below = again.log_probs(again.without_adapters(state), rows)
        again.save(state, second)
        names = [set(TensorFile(place / "adapter_model.safetensors").names()) for place in (first, second)]
        same = (below == full.log_probs(full.load(base), rows)).all()
    return right_if(names[0] == names[1] and same, f"{len(names[1])} trained tensors before and after; the model below "
                    f"the adapters is the base to the bit: {same}")
