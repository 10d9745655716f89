"""Learning algorithms: imitation of traces, rewards, a teacher, or preferences; one small file each."""

from typing import Annotated

from pydantic import Field

from workings.config.algorithms.base import Imitation, RewardAlgorithm, RolloutAlgorithm, TeacherAlgorithm
from workings.config.algorithms.cispo import Cispo
from workings.config.algorithms.dapo import Dapo
from workings.config.algorithms.distill import Distill
from workings.config.algorithms.distill_traces import TraceDistill
from workings.config.algorithms.dpo import Dpo
from workings.config.algorithms.dr_grpo import DrGrpo
from workings.config.algorithms.grpo import Grpo
from workings.config.algorithms.gspo import Gspo
from workings.config.algorithms.rloo import Rloo

AlgorithmConfig = Annotated[Imitation | Grpo | DrGrpo | Rloo | Dapo | Gspo | Cispo | Distill | TraceDistill | Dpo,
                            Field(discriminator="name")]
"""The section `algorithm` of a recipe. Another algorithm is a file beside these, and its class in this line."""
IMITATION = Imitation(name="sft")

__all__ = ["IMITATION", "AlgorithmConfig", "Distill", "Dpo", "Imitation", "RewardAlgorithm", "RolloutAlgorithm",
           "TeacherAlgorithm", "TraceDistill"]
