"""Level 1: completions sampled by another program used the adapters of their update."""

from collections.abc import Iterator

from workings.evidence.verify.record import Unit
from workings.evidence.verify.registry import check, finding_from
from workings.evidence.verify.result import CheckFinding
from workings.evidence.verify.rollout_inputs import rollout_inputs_of, rollouts_of
from workings.record.layout import CHECKPOINTS

ADAPTERS = "adapter_model.safetensors"
TAG = {"name", "version", "adapter", "behind"}


def has_sampler(unit: Unit) -> bool:
    """Whether the recipe of a run names a sampler."""
    return unit.recipe is not None and unit.recipe.sampler is not None


@check("consistency.rollouts", when=has_sampler)
def sampler(unit: Unit) -> Iterator[CheckFinding]:
    """The digest of the adapters in each rollout, against the checkpoint before it and the rollouts around it."""
    inputs, problems, before = rollout_inputs_of(unit), list[str](), (0, "")
    named = inputs.recipe.sampler
    assert named is not None  # `has_sampler`
    changed = {line.step for line in unit.steps if line.share_of_weights_changed > 0}
    saved = {int(name.split("/")[1].rpartition("_")[2]): digest for name, digest in unit.sums.items()
             if name.startswith(f"{CHECKPOINTS}/step_") and name.endswith(f"/{ADAPTERS}")}
    compared = 0
    for rollout in rollouts_of(unit):
        tag, about = rollout.sampler, f"rollout of step {rollout.step}"
        if {*tag} != TAG or tag["name"] != named.name or tag["behind"] not in ("0", "1"):
            problems.append(f"{about}: no name, version and adapters of its sampler")
            continue
        behind = int(tag["behind"])
        if behind and not (named.ahead and rollout.step > 1):
            problems.append(f"{about}: sampled with older adapters, which the recipe does not allow")
        # Updates that the adapters had when it was sampled.
        last = rollout.step - 1 - behind
        if last in saved:
            compared += 1
            if tag["adapter"] != saved[last]:
                problems.append(f"{about}: sampled with adapters that differ from checkpoint {last}")
        if changed.intersection(range(before[0] + 1, last + 1)) and tag["adapter"] == before[1]:
            problems.append(f"{about}: sampled with the adapters before update {last}")
        before = last, tag["adapter"]
    yield finding_from(problems, f"{len(inputs.steps)} rollouts, {compared} against a checkpoint", unit)
