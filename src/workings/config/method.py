"""Recipe section `method`: which weights are trained."""

from typing import Annotated, Literal

from pydantic import Field

from workings.config.section import Section

Projection = Literal["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "c_attn", "c_proj",
                     "c_fc"]
"""Linear layers by Hugging Face's module names; the last three are GPT-2's."""
PROJECTIONS: tuple[Projection, ...] = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


class FullConfig(Section):
    """Every weight is trained."""

    name: Literal["full"]
    """All weights."""


class LoraConfig(Section):
    """LoRA (Hu et al., 2021): frozen weights, and two thin trained matrices beside each chosen projection."""

    name: Literal["lora"]
    """Low-rank adapters beside frozen weights."""
    rank: int = Field(default=16, ge=1)
    """Rank of an adapter (peft: `r`)."""
    alpha: float = Field(default=32.0, gt=0, strict=False)
    """An adapter's output is scaled by `alpha / rank` (peft: `lora_alpha`)."""
    target_modules: tuple[Projection, ...] = Field(default=PROJECTIONS, min_length=1, strict=False)
    """Projections that get an adapter, by Hugging Face's names."""


class QloraConfig(Section):
    """QLoRA (Dettmers et al., 2023): LoRA over projections stored in 4 bits."""

    name: Literal["qlora"]
    """Low-rank adapters beside frozen 4-bit weights (NF4, blocks of 64)."""
    rank: int = Field(default=16, ge=1)
    """Rank of an adapter (peft: `r`)."""
    alpha: float = Field(default=32.0, gt=0, strict=False)
    """An adapter's output is scaled by `alpha / rank` (peft: `lora_alpha`)."""
    target_modules: tuple[Projection, ...] = Field(default=PROJECTIONS, min_length=1, strict=False)
    """Projections that get an adapter, by Hugging Face's names."""


MethodConfig = Annotated[FullConfig | LoraConfig | QloraConfig, Field(discriminator="name")]
FULL = FullConfig(name="full")
