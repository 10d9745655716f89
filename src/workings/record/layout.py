"""Names and places inside a run directory."""

import re
import shlex
from pathlib import Path, PurePosixPath

from workings.errors import RecordError, RequestError

MANIFEST = "run_manifest.json"
README = "README.md"
SUMS = "SHA256SUMS"
SEAL = "SEAL.json"
METRICS = "train/metrics.jsonl"
EVENTS = "train/events.jsonl"
LOG = "train/training_log.txt"
"""Load of the machine, a line every ten seconds; a shorter run has none."""
CHECKPOINTS = "checkpoints"
CONFIG = "config/resolved.json"
OVERRIDES = "config/overrides.json"
RECIPE = "config/recipe.yaml"
MODEL_SHAPE = "config/model_shape.json"
"""Layers and widths of the model, from which its step can be counted again."""
TOKENIZER = "config/tokenizer"
"""Folder with the tokenizer's own files."""
ENVIRONMENT = "env/env_info.json"
DEVICE_CHECKS = "env/device_checks.json"
PLAN = "plan/plan.json"
"""Memory of the step as it was predicted before launch: the peak with its parts, and the limit."""
MEASURED = "plan/measured.json"
"""Measured memory next to the prediction."""
ROWS = "data/rows.jsonl"
PROMPTS = "data/prompts.jsonl"
"""Prompts of a run with rollouts, in place of `ROWS`: questions with expected answers, and their tokens."""
REWARDS = "config/rewards.json"
"""Rewards of a run with rollouts, with versions and digests."""
EPISODES = "config/environment.json"
"""Environment of a run with episodes: name, version, options."""
ROLLOUTS = "train/rollouts"
"""Folder of the rollouts of a run: a file for each, named after the first update that was trained on it."""
TEACHER = "config/teacher.json"
"""Teacher of a run with distillation: run or weights, by digests."""
TOP_TOKENS = "train/top_tokens"
"""Folder of the teacher's top tokens in a run that distills on traces, in the order of batches."""
REFERENCE_LOG_PROBS = "train/reference_log_probs.jsonl"
"""Reference log probabilities of a run with preference pairs: id and log probability of each row."""
GIVEN_TRACES = "data/traces.jsonl"
"""Traces or preference pairs of a run whose data were given in Python and are in no other file."""
GIVEN_ITEMS = "data/items.jsonl"
DATA_DIGESTS = "data/digests.json"
"""Digests of everything that the run is trained and measured with."""
ATTEMPTS = "attempts.jsonl"
ANNOUNCED = "announced"
"""Kind of the event that announces, before the first step, the items of the evaluation and its settings."""
RECIPE_EVALUATION = "eval/items"
"""Folder of the evaluation of a recipe's items in the run directory."""
PARTIAL_SUFFIX = ".partial"

COMMIT = "COMMIT.json"
"""In a checkpoint: size and digest of each of its files; written last."""
STATE = "state.json"
"""In a checkpoint: step, data position, random state and timers."""
EVALUATION_CONFIG = "eval_config.json"
"""In an evaluation: model, items, decoding and scoring."""
EVALUATION_SUMMARY = "eval_summary.json"
"""In an evaluation: its scorecard."""
PREDICTIONS = "predictions.jsonl"
"""In an evaluation: every completion with its score."""
SELECTION = "selection.json"
"""In a unit of samples: the rules of selection, and how many samples were left out for which reason."""
KEPT = "kept.jsonl"
"""In a unit of samples: the kept samples, as traces."""
PAIRS = "pairs.jsonl"
"""In a unit of samples, if requested: preference pairs made of them."""

RUN_FOLDERS = ("config", "env", "plan", "data", "train", CHECKPOINTS)
"""Folders that a run makes for itself at the start."""
SAMPLED = "samples"
"""Kind of a unit of completions that were sampled to learn from."""
EVALUATION_UNITS = ("eval", SAMPLED)
"""Kinds of units that hold predictions."""
UNIT_PARENTS = ("eval",)
"""Folders of a run whose sub-folders are separate units."""
ATTEST = "attest"
OUTSIDE_EVERY_SUM = (ATTEST,)
"""Folders of a run that no unit's sums cover: signatures over root digests."""

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
