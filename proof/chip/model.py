"""An engine opened on a published shape with random weights, and a batch of random tokens for it."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from proof.chip.part import Chip
from workings.config.method import FULL, LoraConfig, QloraConfig
from workings.config.model import ShapeConfig
from workings.config.training import (
    AdafactorConfig,
    AdamWConfig,
    MemoryConfig,
    MeshConfig,
    PrecisionConfig,
)
from workings.engines.base import Engine, EngineRequest
from workings.engines.registry import find_engine
from workings.models.batch import Batch
from workings.models.shape import ModelShape
from workings.models.shapes import published_shape, shape_from_config

METHODS = {"full": FULL, "lora": LoraConfig(name="lora"), "qlora": QloraConfig(name="qlora")}
OPTIMIZERS = {"adamw": AdamWConfig(name="adamw"), "adafactor": AdafactorConfig(name="adafactor")}
MIXED = {"compute": "bf16"}
"""Weights and moments in fp32, products in bf16."""
SMALL = {"parameters": "bf16", "compute": "bf16", "rounding": "stochastic"}
FROZEN = {"parameters": "bf16", "compute": "bf16", "rounding": "nearest"}
VOCABULARY = 512
"""Of the tiny model and of every tokenizer that is made here."""
TINY = ShapeConfig(family="gemma", layers=2, width=32, mlp_width=64, heads=2, kv_heads=1, head_dim=16)


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """One training step: a model and how it is trained."""

    shape: str
    """Name of a published shape."""
    batch: tuple[int, int, int]
    """Accumulation, rows, positions."""
    method: str = "full"
    optimizer: str = "adamw"
    precision: dict[str, str] = field(default_factory=lambda: dict(MIXED))
    memory: dict[str, Any] = field(default_factory=dict)

    def model(self, chip: Chip) -> ModelShape:
        """The published shape, or in a trial a tiny one."""
        return shape_from_config(TINY, VOCABULARY) if chip.tiny else published_shape(self.shape)

    def rows(self, chip: Chip) -> tuple[int, int, int]:
        """The batch, or in a trial a tiny one."""
        return (1, 2, 32) if chip.tiny else self.batch

    def request(self, chip: Chip) -> EngineRequest:
        """What an engine is asked for on one device of this chip."""
        return EngineRequest(
            shape=self.model(chip), device=chip.platform, optimizer=OPTIMIZERS[self.optimizer],
            precision=PrecisionConfig(**self.precision), memory=MemoryConfig(**self.memory),
            mesh=MeshConfig(fsdp=1, tp=1), method=METHODS[self.method])

    def open(self, engine: str, chip: Chip) -> Engine:
        """The engine on one device of this chip."""
        return find_engine(engine).engine.open(self.request(chip))

    def draw(self, chip: Chip) -> Batch:
        """A batch of random tokens; all but the last position of each row are supervised."""
        rows, shape = self.rows(chip), self.model(chip)
        tokens = np.random.default_rng(0).integers(1, shape.vocab_size, size=rows, dtype=np.int32)
        mask = np.ones(rows, np.float32)
        mask[..., -1] = 0
        return Batch(tokens=tokens, targets=np.roll(tokens, -1, axis=2) * mask.astype(np.int32), loss_mask=mask,
                     positions=np.broadcast_to(np.arange(rows[2], dtype=np.int32), rows).copy(),
                     segment_ids=np.ones(rows, np.int32))
