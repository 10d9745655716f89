"""Levels 2 and 3: a recorded replay follows from its numbers; and steps of the run, taken again, come out the same."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from workings.errors import RecordError, RequestError
from workings.evidence.replay.comparison import SCHEMA, is_outside, judge, sentence
from workings.evidence.replay.conditions import PACKAGE, conditions, differing, of_run, on_cpu
from workings.evidence.replay.coverage import is_enough, sentences
from workings.evidence.replay.tolerance import BITWISE, tolerance_for
from workings.evidence.verify.checks.data_order import learns_from_pairs
from workings.evidence.verify.checks.teacher_top_tokens import distills_traces
from workings.evidence.verify.record import Record, Unit
from workings.evidence.verify.registry import check, each, each_run, failed, judged, not_checked, passed, several
from workings.evidence.verify.result import CheckFinding
from workings.evidence.verify.rollout_inputs import draws, has_rewards
from workings.evidence.verify.tree import FolderTree
from workings.record.digest import bytes_digest
from workings.record.layout import ENVIRONMENT, PREDICTIONS, REPLAY, REPLAY_ENVIRONMENT, SAMPLED
from workings.record.number_text import percent
from workings.record.values import is_absent

CONTROLS = frozenset({"seed", "learning_rate", "rows", "checkpoint"})
CONTROLS_OF_REWARDS, CONTROLS_OF_A_TEACHER = CONTROLS | {"reward", "advantage"}, CONTROLS | {"teacher"}
"""Of a run that learned from rewards, and of one that learned from a teacher."""
CONTROLS_OF_PAIRS = CONTROLS | {"pair", "reference"}
"""Of a run that learned from preference pairs."""
COVERAGE = "replay.coverage"
"""The check that says what was taken again, and what that would have missed: of interest whatever its verdict."""
OWN_MACHINE = ("cpu_model", "architecture", "usable_cores", "threads", "variables")
"""Conditions that the environment of a replay tells by itself."""


@check("recompute.replay", level=2, title="a recorded replay says what its numbers say, and they are its run's",
       example="a replay judged by a wider tolerance than this version has")
def recorded_replays(record: Record) -> Iterator[CheckFinding]:
    """Verdict, mode, tolerance, recorded losses and counted completions, drawn again from what they stand on."""
    def find(unit: Unit) -> Iterator[CheckFinding]:
        facts = unit.json(REPLAY)
        if not isinstance(facts, dict) or facts.get("schema") != SCHEMA:
            raise RecordError(f"{unit.full(REPLAY)}: not a {SCHEMA}")
        if unit.parent is None:
            yield not_checked("the run that was replayed is not here", unit, blocking=False)
            return
        problems = [*_conclusion_problems(facts, unit.parent), *_line_problems(facts, unit.parent),
                    *_condition_problems(facts, unit), *_prediction_problems(facts, unit, record)]
        if not problems and facts["verdict"] == "failed":
            problems = [f"the replay itself failed: {several(facts['reasons'])}"]
        if not problems and facts["verdict"] != "passed":
            yield not_checked(f"the replay is open: {several(facts['reasons'])}", unit, blocking=False)
            return
        yield judged(problems, sentence(facts) if not problems else "", unit)
    return each([unit for unit in record.units if unit.kind == "replay"], find)


@check("replay.steps", level=3, title="steps of the run, taken again, come out as recorded",
       example="all losses invented, alike in every file")
def steps(record: Record) -> Iterator[CheckFinding]:
    """Losses, gradient norms and, where the run kept a checkpoint there, weights, against the record."""
    def find(unit: Unit, facts: dict[str, Any]) -> Iterator[CheckFinding]:
        # Controls and completions have checks of their own; left in, one of them would decide this check too.
        verdict, reasons = judge(facts | {"controls": {}, "predictions": {"absent": "judged apart"}})
        told = sentence(facts | {"controls": {}, "predictions": {"absent": "judged apart"}})
        if verdict == "inconclusive":
            yield not_checked(several(reasons), unit)
        else:
            yield passed(told, unit) if verdict == "passed" else failed(told, unit)
    return _each_replayed(record, find)


@check("replay.controls", level=3, title="another seed, learning rate, row or checkpoint does not come out the same",
       example="a replay that would also pass with another seed: it proves nothing, and is not counted")
def controls(record: Record) -> Iterator[CheckFinding]:
    """Wrong steps against the log: without these, a tolerance that lets everything pass would look like a success."""
    def find(unit: Unit, facts: dict[str, Any]) -> Iterator[CheckFinding]:
        inside = [name for name, control in facts["controls"].items() if not control["outside"]]
        # Nothing was disproved, so this is no failure: one step alone, for example, says nothing about the learning
        # rate.
        if inside:
            yield not_checked(f"within the tolerance, so these steps cannot tell them apart: {', '.join(inside)}", unit)
        else:
            yield passed(", ".join(f"{name} (step {control['steps']})" for name, control in facts["controls"].items())
                         + " fell outside", unit)
    return _each_replayed(record, find)


@check("replay.predictions", level=3, title="completions, generated again, are the recorded ones",
       example="all completions of an evaluation invented")
def predictions(record: Record) -> Iterator[CheckFinding]:
    """Items that the verifier's seed draws of every evaluation, and of all samples, of the run's last state."""
    def find(unit: Unit, facts: dict[str, Any]) -> Iterator[CheckFinding]:
        compared = facts["predictions"]
        if is_absent(compared):
            yield not_checked(compared["absent"], unit)
            return
        share = facts["tolerance"]["completions"]
        text = (f"{compared['same']} of {compared['asked']} completions are the recorded text; "
                f"{percent(share, 0)} were expected")
        yield passed(text, unit) if compared["same"] >= share * compared["asked"] else failed(text, unit)
    yield from _each_replayed(record, find, lambda unit: bool(_drawn_by(record, unit)) or any(
        other.parent is unit for other in record.evaluations))
    runs = {run.root for run in record.runs}
    for unit in record.samples:
        origin = unit.seal["made_from"]
        if is_absent(origin):
            yield not_checked("no run drew these samples, so there is no record of the model", unit, blocking=False)
        elif origin not in runs:
            yield not_checked("the run that drew these samples is not here: verify a folder that holds both", unit)


@check(COVERAGE, level=3, title="the steps and answers taken again are enough to find the splice that was asked about",
       example="a run that is true up to the steps that were taken again, and another one's from there on")
def coverage(record: Record) -> Iterator[CheckFinding]:
    """How many steps and answers the seed drew, against how many the confidence that was asked for needs."""
    def find(unit: Unit, facts: dict[str, Any]) -> Iterator[CheckFinding]:
        drawn = facts.get("coverage")
        if drawn is None:
            yield not_checked("what was taken again was not drawn", unit, blocking=False)
            return
        text = "; ".join(sentences(drawn))
        confidence = drawn.get("confidence")
        # Where nobody asked for a confidence, nothing is missing; it is still not said to be enough.
        if confidence is None or not is_enough(drawn, confidence):
            yield not_checked(text, unit, blocking=confidence is not None)
        else:
            yield passed(text, unit)
    return _each_replayed(record, find)


def _each_replayed(record: Record, find: Callable[[Unit, dict[str, Any]], Iterator[CheckFinding]],
                   concerns: Callable[[Unit], bool] = lambda unit: True) -> Iterator[CheckFinding]:
    """What a check finds in the replay of each run that it concerns; where there is none, why."""
    def of_run(unit: Unit) -> Iterator[CheckFinding]:
        if not concerns(unit):
            return
        facts = _performed(record, unit)
        if isinstance(facts, CheckFinding):
            yield facts
        else:
            yield from find(unit, facts)
    return each_run(record, of_run)


def _performed(record: Record, unit: Unit) -> dict[str, Any] | CheckFinding:
    """The replay of one run, done once for all checks; or why it was not."""
    # Several checks read the same replay, and taking the steps again is the dearest thing that verification does.
    if unit.place not in record.replayed:
        record.replayed[unit.place] = _perform(record, unit)
    done = record.replayed[unit.place]
    # Kept like an answer, so that a damaged record is not replayed once a check.
    if isinstance(done, RecordError):
        raise done
    return done


def _drawn_by(record: Record, run: Unit) -> list[Unit]:
    """Units of samples that stand beside a run and say that it drew them."""
    return [unit for unit in record.samples if unit.seal["made_from"] == run.root]


def _perform(record: Record, unit: Unit) -> dict[str, Any] | CheckFinding | RecordError:
    # An engine opens checkpoints by their paths, and a path below the archive does not exist.
    if not isinstance(record.tree, FolderTree):
        return not_checked("a zip is not unpacked; unpack it and verify the folder", unit)
    if record.replay is None:
        return not_checked("no engine was given to replay with", unit)
    if unit.elsewhere:
        return not_checked("its weights are named by digest and are not here", unit)
    try:
        samples = tuple(record.tree.path / each.place for each in _drawn_by(record, unit))
        return dict(record.replay(record.tree.path / unit.place, samples))
    except RequestError as error:
        return not_checked(f"cannot be replayed here: {error.given}; needed: {error.expected}"
                           + (f"; {error.try_next}" if error.try_next else ""), unit)
    except RecordError as error:
        return error
    except (RuntimeError, MemoryError) as error:  # an engine's own: too large for this machine, say
        return not_checked(f"cannot be replayed here: {str(error).strip().splitlines()[:1]}", unit)


def _conclusion_problems(facts: Mapping[str, Any], run: Unit) -> list[str]:
    """What the replay concludes against what follows from its numbers."""
    verdict, reasons = judge(dict(facts))
    problems = []
    if (facts["verdict"], facts["reasons"]) != (verdict, reasons):
        problems.append(f"{REPLAY} says {str(facts['verdict'])[:20]}, its numbers say {verdict}")
    if facts["sentence"] != sentence(dict(facts)):
        problems.append(f"{REPLAY}: its sentence is not the one that its numbers give")
    expected = CONTROLS_OF_REWARDS if has_rewards(run) else CONTROLS_OF_A_TEACHER if draws(run) or distills_traces(
        run) else \
        CONTROLS_OF_PAIRS if learns_from_pairs(run) else CONTROLS
    if set(facts["controls"]) != expected:
        problems.append(f"controls {sorted(facts['controls'])}, expected {sorted(expected)}")
    for name, control in facts["controls"].items():
        outside = is_outside(control["differences"], facts["tolerance"])
        if outside is not control["outside"]:
            problems.append(f"control {name[:20]}: outside is {control['outside']}, its differences say {outside}")
    return problems


def _line_problems(facts: Mapping[str, Any], run: Unit) -> list[str]:
    """The recorded side of every step is the run's own log."""
    problems: list[str] = []
    for number, line in enumerate(facts["lines"], start=int(facts["from_step"])):
        # A negative number would silently read the log from its end.
        if not 0 <= number < len(run.metrics):
            return [*problems, f"step {number + 1}, and the run has {len(run.metrics)}"]
        logged = run.metrics[number]
        if line["step"] != logged["step"] or line["learning_rate"] != logged["learning_rate"]:
            problems.append(f"line {number + 1}: step and learning rate are not those of the log")
        problems += [f"step {line['step']}: recorded {name} is {line['recorded'].get(name)}, the log has {logged[name]}"
                     for name in ("loss", "grad_norm") if line["recorded"].get(name) != logged[name]]
        # The log counts what was drawn before a step; a replay has to have drawn as much.
        asked = line.get("drawn", {}).get("asked", 0)
        if asked != logged.get("completions", 0) or not 0 <= line.get("drawn", {}).get("same", 0) <= asked:
            problems.append(f"step {line['step']}: {asked} completions drawn again, the log has "
                            f"{logged.get('completions', 0):g}")
    return problems


def _condition_problems(facts: Mapping[str, Any], unit: Unit) -> list[str]:
    """Conditions, mode and tolerance against both environments and this version's tolerances."""
    run = unit.parent
    assert run is not None  # the caller has looked
    there, here = facts["conditions"]["recorded"], facts["conditions"]["here"]
    packages = [name.removeprefix(PACKAGE) for name in there if name.startswith(PACKAGE)]
    problems = []
    if there != of_run(run.manifest, run.json(ENVIRONMENT), packages):
        problems.append("the recorded conditions are not those of the run")
    own = conditions(unit.json(REPLAY_ENVIRONMENT), engine="", code="", device="", mesh={}, packages=packages)
    problems += [f"{name} is {str(here.get(name))[:40]!r}, {REPLAY_ENVIRONMENT} says {own[name][:40]!r}"
                 for name in (*OWN_MACHINE, *(PACKAGE + name for name in packages)) if here.get(name) != own[name]]
    names = differing(there, here)
    bitwise = not names and on_cpu(there)
    if names != facts["conditions"]["differing"] or facts["mode"] != ("bitwise" if bitwise else "tolerance"):
        problems.append(f"judged as {str(facts['mode'])[:20]}, the conditions ask for another way")
    allowed = BITWISE if bitwise else tolerance_for(run.manifest.actual_dtypes, there, here)
    if allowed is None:
        return [*problems, "no tolerance was measured for this number format"]
    limits = allowed.to_json()
    problems += [f"tolerance {name} is {facts['tolerance'][name]}, this version's is {limits[name]}"
                 # Written as a range, so that a NaN is refused as well: it is not within any range.
                 for name in ("loss", "grad_norm", "weights") if not 0 <= facts["tolerance"][name] <= limits[name]]
    if facts["tolerance"]["completions"] < limits["completions"]:
        problems.append("fewer equal completions are asked for than by this version")
    return problems


def _prediction_problems(facts: Mapping[str, Any], unit: Unit, record: Record) -> list[str]:
    """Completions counted again against the run's own evaluations."""
    stated = facts["predictions"]
    if is_absent(stated):
        return [f"{PREDICTIONS} is there, {REPLAY} has none"] if unit.has(PREDICTIONS) else []
    run = unit.parent
    assert run is not None  # the caller has looked
    places = {other.place: other for other in record.evaluations if other.parent is run}
    rows = unit.lines(PREDICTIONS)
    same = 0
    answers: dict[tuple[str, str, int], Mapping[str, Any]] = {}
    drawn = {f"{SAMPLED}/{other.root}": other for other in record.samples}
    for name in {str(row["unit"]) for row in rows}:
        evaluation = drawn.get(name) or places.get(run.full(name))
        if evaluation is None and name.startswith(f"{SAMPLED}/"):
            continue  # samples stand outside of the run, and need not be here: what the replay says of them counts
        if evaluation is None:
            return [f"evaluation {name[:60]!r} is not in the run"]
        answers |= {(name, row["id"], row["sample"]): row for row in evaluation.lines(PREDICTIONS)}
    for row in rows:
        before = answers.get((row["unit"], row["id"], row["sample"]))
        if before is None and row["unit"] not in drawn and row["unit"].startswith(f"{SAMPLED}/"):
            same += row["same"] is True
            continue
        if before is None:
            return [f"{str(row['id'])[:60]}: the evaluation has no such item"]
        equal = (bytes_digest(row["completion"].encode("utf-8")) == before["completion_sha256"]
                 if "completion_sha256" in before else row["completion"] == before["completion"])
        same += equal
    # A completion that comes out the same could otherwise be counted again and again until the share suffices.
    if len({(row["unit"], row["id"], row["sample"]) for row in rows}) != len(rows):
        return ["a completion is counted twice"]
    counted = {"units": sorted({row["unit"] for row in rows}), "asked": len(rows), "same": same}
    if counted == dict(stated):
        return []
    return [f"{same} of {len(rows)} completions are the recorded text, {REPLAY} says "
            f"{str(stated.get('same'))[:20]} of {str(stated.get('asked'))[:20]}"]
