"""Distillation from a teacher's top tokens: numbers by hand, both engines next to all logits at once, several devices.

By hand, of two tokens a position: the first position's teacher gives 1/2, 1/4 and 1/4 to the rest, its student 1/4, 1/4
and 1/2; the second's teacher 1/2, 1/2 and nothing, its student 1/2, 1/4 and 1/4. The third is not supervised.
"""

import math
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from tests.engines.objective_oracle import FRAMEWORKS
from tests.engines.tiny import random_batch, request, tiny_shape, with_top_tokens
from tests.objectives.numpy_functions import NUMPY
from workings.config.training import MemoryConfig, PrecisionConfig
from workings.engines.base import TeachingEngine
from workings.engines.jax.engine import JaxEngine
from workings.engines.torch.engine import TorchEngine
from workings.models.batch import Batch
from workings.objectives.top_tokens import MIN_REST, TopTokens

ENGINES: dict[str, Any] = {"jax": JaxEngine, "torch": TorchEngine}
TWO = TopTokens(top_k=2)
MASK = np.array([[1, 1, 0]], np.float32)
TEACHER = np.log([[[1 / 2, 1 / 4], [1 / 2, 1 / 2], [1, 1]]])
STUDENT = np.log([[[1 / 4, 1 / 4], [1 / 2, 1 / 4], [1, 1]]])
SIGNALS = {name: TEACHER[..., number].astype(np.float32) for number, name in enumerate(TWO.log_prob_signals)}
LN2 = math.log(2)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_values_worked_out_by_hand(framework: str) -> None:
    total, means, derivative = FRAMEWORKS[framework](TWO, STUDENT, MASK, SIGNALS)
    # 1/2 ln 2 + 1/4 ln 1 + 1/4 ln 1/2; then 1/2 ln 1 + 1/2 ln 2, and of the rest what is counted at the least.
    assert total == pytest.approx(LN2 / 4 + LN2 / 2 + MIN_REST * math.log(4 * MIN_REST), abs=1e-6)
    # 3/4 and 1; the entropies are 3/2 ln 2 and ln 2.
    assert means == pytest.approx({"teacher_mass": 7 / 8, "teacher_entropy": 5 / 4 * LN2}, abs=1e-4)
    if derivative is not None:
        # Minus the teacher's probability, plus that of the rest times the token's share of what is no rest.
        expected = [[[-1 / 2 + 1 / 4 * (1 / 4) / (1 / 2), -1 / 4 + 1 / 4 * (1 / 4) / (1 / 2)],
                     [-1 / 2 + 2 * MIN_REST, -1 / 2 + MIN_REST], [0, 0]]]
        np.testing.assert_allclose(derivative, expected, atol=1e-6)


def test_a_student_like_its_teacher_is_at_zero_and_nothing_overflows() -> None:
    for log_probs in (TEACHER, np.full_like(TEACHER, -1e4), np.log(np.full_like(TEACHER, 1 / 2))):
        own = {name: log_probs[..., number] for number, name in enumerate(TWO.log_prob_signals)}
        assert float(TWO.terms(NUMPY, log_probs, MASK, own).total) == pytest.approx(0, abs=1e-12)
        assert np.isfinite(TWO.terms(NUMPY, log_probs, MASK, SIGNALS).total)


@pytest.mark.slow
@pytest.mark.parametrize("chunk", [pytest.param(0, marks=pytest.mark.full), 5])
@pytest.mark.parametrize("name", ENGINES)
def test_what_is_most_likely_follows_from_all_logits(name: str, chunk: int) -> None:
    asked = request(tiny_shape("gemma2"), objective=TopTokens(top_k=5), memory=MemoryConfig(loss_chunk=chunk))
    engine = ENGINES[name].open(asked)
    assert isinstance(engine, TeachingEngine)
    teacher, batch = engine.init(1), random_batch(asked.shape, micro=2)
    tokens, log_probs = engine.most_likely(teacher, batch, 5, 40)
    for micro in range(2):
        one = Batch.of({key: x[micro:micro + 1] for key, x in batch.arrays.items()})
        whole = np.asarray(jax.nn.log_softmax(engine.logits(teacher, one)))
        expected = np.argsort(-whole[..., :40], -1)[..., :5]
        there = one.loss_mask[0][..., None] > 0
        np.testing.assert_array_equal(tokens[micro], np.where(there, expected, 0))
        found = np.take_along_axis(whole, expected, -1)
        np.testing.assert_allclose(log_probs[micro], np.where(there, found, 0), atol=2e-5)
    assert (tokens.dtype, log_probs.dtype) == (np.int32, np.float32)


@pytest.mark.slow
def test_torch_walks_over_the_vocabulary_with_several_targets(tmp_path: Path) -> None:
    """Weights in bfloat16 and arithmetic in float32: slice after slice of the head."""
    asked = request(tiny_shape("gemma"), objective=TopTokens(top_k=3), memory=MemoryConfig(loss_chunk=7),
                    precision=PrecisionConfig(parameters="bf16", compute="fp32"))
    jaxs, torchs = (engine.open(asked) for engine in ENGINES.values())
    jaxs.save(jaxs.init(1), tmp_path)
    batch = random_batch(asked.shape)
    said = [engine.most_likely(engine.restore(tmp_path), batch, 3, 61) for engine in (jaxs, torchs)]
    np.testing.assert_array_equal(said[0][0], said[1][0])
    np.testing.assert_allclose(said[0][1], said[1][1], atol=1e-4)
    jaxs.save(jaxs.init(0), tmp_path)
    found = [engine.step(engine.restore(tmp_path), with_top_tokens(batch, *said[0]), 1e-3)[1]
             for engine in (jaxs, torchs)]
    assert found[0].loss == pytest.approx(found[1].loss, rel=1e-4)
    assert found[0].grad_norm == pytest.approx(found[1].grad_norm, rel=1e-2)  # gradients are stored in bfloat16
