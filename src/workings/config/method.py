"""Recipe section `method`: which weights are trained."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from workings.config.section import Section

Projection = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
"""A linear layer by Hugging Face's module name."""
PROJECTIONS: tuple[Projection, ...] = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
KNOWN_PROJECTIONS = (*PROJECTIONS, "in_proj_qkv", "in_proj_z", "out_proj")
"""Projections of this package's families: the common ones, then Qwen 3.5's. Unverified models may have others."""


class FullConfig(Section):
    """Every weight is trained."""

    trains_all_weights: ClassVar[bool] = True
    dropout: ClassVar[float] = 0.0
    """Only adapters drop inputs."""
    name: Literal["full"]
    """All weights."""


class AdapterFields(Section):
    """Keys of adapters, which are trained next to frozen weights."""

    trains_all_weights: ClassVar[bool] = False
    name: str
    """The method."""
    rank: int = Field(default=16, ge=1)
    """Rank of an adapter (peft: `r`)."""
    alpha: float = Field(default=32.0, gt=0)
    """An adapter's output is scaled by `alpha / rank` (peft: `lora_alpha`)."""
    rank_stabilized: bool = False
    """Whether it is scaled by `alpha / rank ** 0.5` instead (rsLoRA; Kalajdzievski, 2023; peft: `use_rslora`)."""
    dropout: float = Field(default=0.0, ge=0, lt=1)
    """Share of an adapter's inputs that a training step sets to 0; the others are divided by `1 - dropout` (peft:
    `lora_dropout`). Evaluation and references use all inputs. Not for a model that learns from its own
    completions."""
    target_modules: tuple[Projection, ...] = Field(default=PROJECTIONS, min_length=1, strict=False)
    """Projections that get an adapter, by Hugging Face's names: of this project's families those of the default, and
    Qwen 3.5's `in_proj_qkv`, `in_proj_z` and `out_proj` in layers with a state; of a model with `model.verified: false`
    its linear layers."""

    @property
    def scale(self) -> float:
        """Factor of an adapter's output."""
        return self.alpha / (self.rank ** 0.5 if self.rank_stabilized else self.rank)


class LoraConfig(AdapterFields):
    """LoRA (Hu et al., 2021): frozen weights, and two thin trained matrices next to each chosen projection."""

    name: Literal["lora"]
    """Low-rank adapters next to frozen weights."""


class QloraConfig(AdapterFields):
    """QLoRA (Dettmers et al., 2023): LoRA over projections stored in 4 bits."""

    name: Literal["qlora"]
    """Low-rank adapters next to frozen 4-bit weights (NF4, blocks of 64)."""


MethodConfig = Annotated[FullConfig | LoraConfig | QloraConfig, Field(discriminator="name")]
FULL = FullConfig(name="full")
