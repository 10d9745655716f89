"""What an evaluation's settings say of themselves, against its completions and against the run around it."""

import re
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

from workings.evidence.verify.checks.completion_facts import elsewhere_problems, judged_problems
from workings.evidence.verify.record import Unit
from workings.evidence.verify.registry import section_of
from workings.record.layout import EVALUATION_CONFIG, PREDICTIONS
from workings.record.values import is_absent

BACKENDS = {"cpu": "cpu", "cuda": "gpu", "gpu": "gpu", "rocm": "gpu", "tpu": "tpu"}
"""First words of what a library calls its devices -> platform."""
GENERATED = "generated"
_BASE = re.compile(r"/base-[A-Za-z0-9._-]{1,60}-([0-9a-f]{12})$")


def stated_problems(unit: Unit, config: dict[str, Any]) -> Iterator[str]:
    """Settings that the evaluation's own lines, its other settings or its run contradict.

    Args:
        unit: the evaluation.
        config: contents of its `eval_config.json`.
    """
    source, engine = section_of(config, "source"), section_of(config, "engine")
    limit = section_of(config, "limits").get("max_completion_chars")
    if type(limit) is int:
        yield from _length_problems(unit, limit)
    if source.get("kind") == GENERATED:
        # Generated answers come from nowhere else, so a file or a digest here would be a made-up source.
        if set(source) != {"kind"}:
            yield f"{EVALUATION_CONFIG}: generated, and source has {', '.join(sorted(source))[:80]}"
        yield from (f"{EVALUATION_CONFIG}: generated, and {name} is not told" for name in ("decoding", "engine")
                    if name in config and is_absent(config[name]))
    backend, platform = section_of(engine, "versions").get("backend"), engine.get("platform")
    if isinstance(backend, str) and isinstance(platform, str) and not backend_agrees(backend, platform):
        yield (f"{EVALUATION_CONFIG}: engine.versions.backend is {backend[:40]!r}, engine.platform {platform[:40]!r}")
    if type(devices := engine.get("devices", 1)) is not int or devices < 1:
        yield f"{EVALUATION_CONFIG}: engine.devices is {str(devices)[:20]}"
    yield from _template_problems(unit, config)
    yield from judged_problems(unit, config)
    yield from _base_name_problems(unit, config)
    if source.get("kind") == "predictions":
        yield from elsewhere_problems(unit, config)


def _length_problems(unit: Unit, limit: int) -> Iterator[str]:
    """A completion that was too long to be scored has an error; one that was scored is not longer than the limit."""
    longest = max((len(row["completion"]) for row in unit.lines(PREDICTIONS)
                   if isinstance(row.get("completion"), str) and "error" not in row and "completion_chars" not in row),
                  default=0)
    if longest > limit:
        yield f"{EVALUATION_CONFIG}: limits.max_completion_chars is {limit}, a completion was scored of {longest}"


def _template_problems(unit: Unit, config: dict[str, Any]) -> Iterator[str]:
    """A run is asked in the chat template that it was trained with."""
    data = unit.parent.manifest.config.get("data") if unit.parent is not None else None
    trained = data.get("template") if isinstance(data, dict) else None
    name = section_of(config, "template").get("name")
    if trained is not None and name is not None and name != trained:
        yield f"{EVALUATION_CONFIG}: template.name is {str(name)[:40]!r}, the run's is {str(trained)[:40]!r}"


def _base_name_problems(unit: Unit, config: dict[str, Any]) -> Iterator[str]:
    """The name of an untrained model's evaluation ends with digits of all that decides its answers."""
    match = _BASE.search(f"/{unit.path}") if unit.parent is None else None
    # Other versions may have made the digits of other settings.
    if match is None or section_of(config, "software").get("workings") != version("workings"):
        return
    from workings.evaluation.cache import base_key
    try:
        key = base_key(config)
    except (KeyError, TypeError, ValueError, AttributeError):
        return  # an evaluation with a folder's name like this
    if key != match[1]:
        yield f"its name ends with {match[1]}, what decides its answers gives {key}"


def backend_agrees(backend: str, platform: str) -> bool:
    """Whether what a library calls its devices is of a platform; a word that is not known is."""
    # Libraries append numbers and versions, as in `cuda:0` or `TPU v5`.
    word = re.split(r"[\s:.\d]", backend.strip().lower(), maxsplit=1)[0]
    return BACKENDS.get(word, platform) == platform
