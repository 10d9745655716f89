"""A family as another package would bring it: Llama with biases on queries, keys and values.

It reads and writes transformers' ``seed_oss``, so that transformers is the oracle of the PyTorch engine.
"""

from dataclasses import replace
from pathlib import Path

from workings.models import registry
from workings.models.families.standard import LLAMA

FAMILY = replace(
    LLAMA, name="toy", model_type="seed_oss", architecture="SeedOssForCausalLM",
    switches={**LLAMA.switches, "qkv_bias": True}, fixed={"attention_bias": True, "attention_out_bias": False},
    licence="Toy licence")


def install(monkeypatch, folder: Path, package: str = "toys", **families: str) -> None:
    """As if a package were installed whose entry points bring these families, until the test ends."""
    registry.families()
    monkeypatch.setattr(registry, "registered", dict(registry.registered))
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[workings.families]\n" + "".join(f"{name} = {value}\n" for name, value in families.items()))
    monkeypatch.syspath_prepend(str(folder))
