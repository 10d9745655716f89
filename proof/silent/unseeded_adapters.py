"""The seed does not reach the first values of adapters: two runs of one seed differ.

Reported: trl#6688.
"""

from proof.silent._harness import LORA, Found, opened, right_if, temporary


def check(engine: str) -> Found:
    """Two states of one seed are equal to the bit, those of two seeds are not."""
    saved = []
    with temporary() as folder:
        for number, seed in enumerate((1, 1, 2)):
            (place := folder / str(number)).mkdir()
            model = opened(engine, method=LORA, seed=seed)
            model.save(model.init(seed), place)
            saved.append((place / "adapter_model.safetensors").read_bytes())
    return right_if(saved[0] == saved[1] != saved[2],
                    "adapters of one seed are equal to the bit, of two seeds different")
