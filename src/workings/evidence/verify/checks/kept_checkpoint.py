"""Level 1: the kept checkpoint is the best one by the log, and the run ended when its patience did."""

from collections.abc import Iterator

from workings.evidence.verify.learning import best_of
from workings.evidence.verify.record import Unit
from workings.evidence.verify.registry import check, finding_from, only_if_written_by_train, same_json
from workings.evidence.verify.result import CheckFinding
from workings.record.best_checkpoint import KEPT, best_checkpoint
from workings.record.layout import MANIFEST


@check("consistency.checkpoints", when=lambda unit: best_of(unit) is not None or KEPT in unit.manifest.facts,
       precondition=only_if_written_by_train)
def kept(unit: Unit) -> Iterator[CheckFinding]:
    """Step, measure and values of the manifest against the log; patience that was at an end before the run was."""
    best, said = best_of(unit), unit.manifest.facts.get(KEPT)
    if best is None or not isinstance(said, dict):
        yield finding_from([f"{MANIFEST} names {'a' if best is None else 'no'} kept checkpoint, by recipe and log "
                            f"there is {'none' if best is None else 'one'}"], "", unit)
        return
    follows = {"step": best.step, "measure": best.measure, "value": best.value, "measured": best.measured,
               "last_step": best.last_step, "last_value": best.last_value}
    problems = [f"{MANIFEST}: {KEPT}.{name} is {str(said.get(name))[:40]}, by the log it is {value}"
                for name, value in follows.items() if not same_json(said.get(name), value)]
    section, steps = unit.manifest.config["checkpoint"], unit.manifest.planned_steps
    earlier = best_checkpoint(section, [line for line in unit.metrics if line["step"] < best.last_step], steps)
    if earlier is not None and earlier.ends_the_run:
        problems.append(f"the run continued after step {earlier.last_step}: {earlier.reason}")
    yield finding_from(problems, f"step {best.step} was kept: its {best.measure} {best.value:.4g} is the best of "
                                 f"{best.measured}", unit)
