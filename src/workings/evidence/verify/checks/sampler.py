"""Level 1: completions sampled by another program used the adapters of their update."""

from collections.abc import Iterator

from workings.evidence.verify.record import Unit
from workings.evidence.verify.registry import check, finding_from
from workings.evidence.verify.result import CheckFinding
from workings.evidence.verify.rollout_inputs import rollout_inputs_of, rollouts_of
from workings.record.layout import CHECKPOINTS

ADAPTERS = "adapter_model.safetensors"
TAG = {"name", "version", "adapter"}


def has_sampler(unit: Unit) -> bool:
    """Whether the recipe of a run names a sampler."""
    return unit.recipe is not None and unit.recipe.sampler is not None


@check("consistency.rollouts", when=has_sampler)
def sampler(unit: Unit) -> Iterator[CheckFinding]:
    """The digest of the adapters in each rollout, against the checkpoint before it and the rollouts around it."""
    inputs, problems, before = rollout_inputs_of(unit), [], ""
    changed = {line.step: line.share_of_weights_changed > 0 for line in unit.steps}
    saved = {int(name.split("/")[1].rpartition("_")[2]): digest for name, digest in unit.sums.items()
             if name.startswith(f"{CHECKPOINTS}/step_") and name.endswith(f"/{ADAPTERS}")}
    compared = 0
    for rollout in rollouts_of(unit):
        tag, last = rollout.sampler, rollout.step - 1
        if {*tag} != TAG or tag["name"] != getattr(inputs.recipe.sampler, "name", ""):
            problems.append(f"rollout of step {rollout.step}: no name, version and adapters of its sampler")
            continue
        if last in saved:
            compared += 1
            if tag["adapter"] != saved[last]:
                problems.append(f"rollout of step {rollout.step}: sampled with adapters that differ from checkpoint "
                                f"{last}")
        if changed.get(last) and tag["adapter"] == before:
            problems.append(f"rollout of step {rollout.step}: sampled with the adapters before update {last}")
        before = tag["adapter"]
    yield finding_from(problems, f"{len(inputs.steps)} rollouts, {compared} against a checkpoint", unit)
