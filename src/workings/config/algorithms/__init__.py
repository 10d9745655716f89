"""Learning algorithms: imitation of traces, rewards, a teacher, or preferences."""

from typing import Annotated

from pydantic import Field

from workings.config.algorithms.base import Imitation, RewardAlgorithm, RolloutAlgorithm, TeacherAlgorithm
from workings.config.algorithms.distill import Distill, TraceDistill
from workings.config.algorithms.dpo import Dpo
from workings.config.algorithms.grpo import Cispo, Dapo, DrGrpo, Grpo, Gspo, Rloo

AlgorithmConfig = Annotated[Imitation | Grpo | DrGrpo | Rloo | Dapo | Gspo | Cispo | Distill | TraceDistill | Dpo,
                            Field(discriminator="name")]
"""The section `algorithm` of a recipe. Another algorithm is a class in one of these files, and in this line."""
IMITATION = Imitation(name="sft")

__all__ = ["IMITATION", "AlgorithmConfig", "Distill", "Dpo", "Imitation", "RewardAlgorithm", "RolloutAlgorithm",
           "TeacherAlgorithm", "TraceDistill"]
