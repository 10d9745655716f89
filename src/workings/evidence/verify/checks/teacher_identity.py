"""Level 1: which model was the teacher of a run with distillation.

Its log probabilities have checks of their own: those of rollouts (`checks.rollouts`: every token's advantage is the
teacher's log probability minus the student's, and the batches have the recorded digests) and the top tokens of traces
(`checks.teacher_top_tokens`).
"""

from collections.abc import Iterator
from typing import Any

from workings.evidence.verify.learning import records
from workings.evidence.verify.record import Unit
from workings.evidence.verify.registry import check, every_run, finding_from, join_first, not_checked
from workings.evidence.verify.result import CheckFinding
from workings.record.coverage import partly, record_file
from workings.record.digest import is_digest, json_digest
from workings.record.layout import CHECKPOINTS, SUMS, TEACHER

record_file("run", "config/teacher.json",
            partly("*", "consistency.teacher", "its digest in the manifest; that it was asked, only a replay says"))


@check("consistency.teacher", level=1, title="the teacher is the one that the manifest names", units=every_run,
       when=records(TEACHER), example="another root digest of the teacher")
def teacher(unit: Unit) -> Iterator[CheckFinding]:
    """Digest and precision of the teacher; its root, if a run of its name is verified as well."""
    recorded_digest, facts = unit.manifest.data_digests.get("teacher"), unit.json(TEACHER)
    problems = []
    if recorded_digest != json_digest(facts):
        problems.append(f"{TEACHER} has digest {json_digest(facts)[:16]}…, the manifest {str(recorded_digest)[:16]}…")
    problems += _fact_problems(facts, unit.manifest.config["algorithm"])
    problems += [problem for run in unit.record.runs if not problems and run.has(SUMS) and run.root == facts.get("root")
                 for problem in _run_problems(facts, run)]
    yield finding_from(problems, _sentence(facts) if not problems else "", unit)
    for run in unit.record.runs:
        # No failure: names are not unique, and the true teacher may lie elsewhere.
        if not problems and run.manifest.name == facts.get("run") and run.root != facts["root"]:
            yield not_checked(f"{run.title} has the teacher's name and another root, {run.root[:16]}…: it is not "
                              "the run that was learned from", unit, blocking=False)


def _fact_problems(facts: Any, algorithm: dict[str, Any]) -> list[str]:
    if not isinstance(facts, dict) or not isinstance(facts.get("weights"), dict) or not facts["weights"]:
        return [f"{TEACHER} names no weights"]
    base = facts.get("base", {})  # of a teacher with adapters: what they stand beside
    if not isinstance(base, dict) or not isinstance(base.get("weights", {}), dict):
        return [f"{TEACHER} names no weights that its adapters stand beside"]
    digests = [*facts["weights"].values(), *base.get("weights", {}).values(),
               *([facts["root"]] if "root" in facts else []), facts.get("tokenizer")]
    problems = [] if all(map(is_digest, digests)) else [f"{TEACHER}: a digest of it is none"]
    if not isinstance(facts.get("run" if "root" in facts else "id"), str):
        problems.append(f"{TEACHER} says neither which run nor which weights")
    checkpoint = facts.get("checkpoint")
    if checkpoint is not None and any(not name.startswith(f"{CHECKPOINTS}/{checkpoint}/") for name in facts["weights"]):
        problems.append(f"{TEACHER}: weights of another checkpoint than {str(checkpoint)[:40]}")
    if facts.get("precision") != algorithm.get("teacher_precision"):
        problems.append(f"{TEACHER}: precision {str(facts.get('precision'))[:10]}, the recipe's is "
                        f"{str(algorithm.get('teacher_precision'))[:10]}")
    return problems


def _run_problems(facts: dict[str, Any], run: Unit) -> Iterator[str]:
    """What is said of a teacher against the run that it is, by its root."""
    if facts.get("run") != run.manifest.name:
        yield f"{TEACHER} calls it {str(facts.get('run'))[:40]!r}, the run of this root is {run.manifest.name[:40]!r}"
    if facts.get("tokenizer") != run.manifest.data_digests.get("tokenizer", facts.get("tokenizer")):
        yield f"{TEACHER} names another tokenizer than the run of this root"
    if others := [name for name, digest in facts["weights"].items() if run.sums.get(name) != digest]:
        yield f"{TEACHER}: {join_first(others)} with another digest than in the run of this root"


def _sentence(facts: dict[str, Any]) -> str:
    if "root" in facts:
        return f"run {facts['run']}, root {facts['root'][:16]}…, in {facts['precision']}"
    return f"{facts['id']} at {facts['revision']}, in {facts['precision']}"
