"""Names and places inside a run directory."""

import re
import shlex
from collections.abc import Iterator
from itertools import count
from pathlib import Path, PurePosixPath

from workings.errors import RecordError, RequestError

# Files of a run. `docs/format.md` shows what they hold.
MANIFEST = "run_manifest.json"  # facts that are known at its end
README = "README.md"
SUMS = "SHA256SUMS"  # digest of every file
SEAL = "SEAL.json"  # written last: kind, status and root digest
CONFIG = "config/resolved.json"  # the recipe that ran, with all defaults
RECIPE = "config/recipe.yaml"  # the recipe as written
OVERRIDES = "config/overrides.json"
MODEL_SHAPE = "config/model_shape.json"  # layers and widths of the model
TOKENIZER = "config/tokenizer"  # folder with the tokenizer's own files
REWARDS = "config/rewards.json"  # with rollouts: rewards, with versions and digests
EPISODES = "config/environment.json"  # with episodes: name, version and options of the environment
TEACHER = "config/teacher.json"  # with distillation: run or weights of the teacher, by digests
ENVIRONMENT = "env/env_info.json"
DEVICE_CHECKS = "env/device_checks.json"
PLAN = "plan/plan.json"  # memory of the step as it was predicted: the peak with its parts, and the limit
MEASURED = "plan/measured.json"  # measured memory
DATA_DIGESTS = "data/digests.json"  # of everything that the run is trained and measured with
ROWS = "data/rows.jsonl"
PROMPTS = "data/prompts.jsonl"  # with rollouts, instead of rows: questions with expected answers, and their tokens
GIVEN_TRACES = "data/traces.jsonl"  # traces or pairs that were given in Python and are in no other file
GIVEN_ITEMS = "data/items.jsonl"
METRICS = "train/metrics.jsonl"
EVENTS = "train/events.jsonl"
LOG = "train/training_log.txt"  # load of the machine, a line every ten seconds; a shorter run has none
ROLLOUTS = "train/rollouts"  # folder with a file for each rollout, named after the first update that learns from it
TOP_TOKENS = "train/top_tokens"  # folder with the teacher's top tokens of traces, in the order of batches
REFERENCE_LOG_PROBS = "train/reference_log_probs.jsonl"  # with preference pairs: log probability of each row
CHECKPOINTS = "checkpoints"
RECIPE_EVALUATION = "eval/items"  # folder of the evaluation of the recipe's items
ATTEST = "attest"  # folder of signatures over root digests

# Files of a checkpoint.
COMMIT = "COMMIT.json"  # written last: size and digest of each file
STATE = "state.json"  # step, data position, random state and timers

# Files of an evaluation, and of a unit of samples.
EVALUATION_CONFIG = "eval_config.json"  # model, items, decoding and scoring
EVALUATION_SUMMARY = "eval_summary.json"  # scorecard
PREDICTIONS = "predictions.jsonl"  # every completion with its score
SELECTION = "selection.json"  # of samples: the rules, and how many were left out for which reason
KEPT = "kept.jsonl"  # of samples: the kept ones, as traces
PAIRS = "pairs.jsonl"  # of samples: preference pairs made of them

ATTEMPTS = "attempts.jsonl"  # next to the runs
PARTIAL_SUFFIX = ".partial"  # end of the name of an unfinished run
ANNOUNCED = "announced"
"""Kind of the event that announces, before the first step, the items of the evaluation and its settings."""
RUN_FOLDERS = ("config", "env", "plan", "data", "train", CHECKPOINTS)
"""Folders that a run makes for itself at the start."""
SAMPLED = "samples"
"""Kind of a unit of completions that were sampled to learn from."""
EVALUATION_UNITS = ("eval", SAMPLED)
"""Kinds of units that hold predictions."""
UNIT_PARENTS = ("eval",)
"""Folders of a run whose sub-folders are separate units."""
OUTSIDE_EVERY_SUM = (ATTEST,)
"""Folders of a run that no unit's sums cover."""

_ROLLOUT = re.compile(r"step_([0-9]{6,18})\.json")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+=@-]{0,199}")


def top_tokens_file(number: int) -> str:
    """Path of a file of `TOP_TOKENS` in a run, by its number from 0."""
    return f"{TOP_TOKENS}/part_{number:06d}.safetensors"


def checkpoint_folder(step: int) -> str:
    """Name of the folder of a checkpoint, in `CHECKPOINTS`."""
    return f"step_{step:06d}"


def rollout_file(step: int) -> str:
    """Path of the rollout whose first update is this one."""
    return f"{ROLLOUTS}/step_{step:06d}.json"


def rollout_step(name: str) -> int | None:
    """The step in a rollout's file name, with its folder or without; None for any other name."""
    match = _ROLLOUT.fullmatch(name.rpartition("/")[2])
    if match is None:
        return None
    step = int(match[1])
    # One name per step: of more than six digits none begins with 0.
    return step if rollout_file(step) == f"{ROLLOUTS}/{match[0]}" else None


def numbered(name: str) -> Iterator[str]:
    """NAME, NAME-2, NAME-3, and so on."""
    yield name
    yield from (f"{name}-{number}" for number in count(2))


def partial_path(final: Path) -> Path:
    """Path of a run until it is sealed: `runs/name.partial`."""
    return final.with_name(final.name + PARTIAL_SUFFIX)


def partial_unit_path(unit: Path) -> Path:
    """Path of a unit until it is sealed: next to the sealed run that it belongs to, else next to its final path."""
    run = unit.parent.parent  # RUN/eval/NAME
    # In a sealed run every file has to be sealed; a kill would leave half a unit there, and the run would not verify.
    if unit.parent.name in UNIT_PARENTS and (run / SEAL).is_file():
        return run.with_name(f"{run.name}.{unit.parent.name}-{unit.name}{PARTIAL_SUFFIX}")
    return partial_path(unit)


def check_relative(text: str) -> PurePosixPath:
    """A relative path of plain names, fit for a record on every system. Raises `RecordError` for any other."""
    if not all(map(_is_plain, text.split("/"))):
        raise RecordError(f"not a path that a record may hold: {text[:200]!r} (letters, digits and ._+=@- only, "
                          "no hidden names, no '..')")
    return PurePosixPath(text)


def _is_plain(name: str) -> bool:
    # Windows takes a dot at the end of a name away, and the listed file would not be found there.
    return _NAME.fullmatch(name) is not None and not name.endswith(".")


def refuse_unit_name(out: Path) -> None:
    """Raise `RequestError` for a new run or evaluation whose name `check_relative` would refuse in a pack."""
    name = out.name
    if _is_plain(name):
        return
    plain = re.sub(r"[^A-Za-z0-9._+=@-]+", "-", name).strip("-.")[:200].rstrip(".") or "run"
    raise RequestError(f"--out {shlex.quote(str(out))} ends with a name that is not allowed",
                       "a name of at most 200 letters from a to z, digits and ._+=@-, which does not begin or end with "
                       "a dot: packs and lists of sums hold it", f"--out {shlex.quote(str(out.with_name(plain)))}")


def unit_of(relative: PurePosixPath) -> str:
    """Unit of a run that a path belongs to: `""` for the run itself, else the unit's folder such as `eval/test`."""
    parts = relative.parts
    if parts[0] in OUTSIDE_EVERY_SUM:
        return parts[0]
    if parts[0] in UNIT_PARENTS and len(parts) > 1:
        return f"{parts[0]}/{parts[1]}"
    return ""
