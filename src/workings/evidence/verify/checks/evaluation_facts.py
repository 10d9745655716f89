"""What an evaluation's settings say of themselves, against its completions and against the run around it."""

from collections.abc import Iterator
from typing import Any

from workings.evidence.verify.checks.log_lines import backend_agrees
from workings.evidence.verify.record import Unit
from workings.record.layout import EVALUATION_CONFIG, PREDICTIONS
from workings.record.values import is_absent

GENERATED = "generated"


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
    yield from _template_problems(unit, config)


def _length_problems(unit: Unit, limit: int) -> Iterator[str]:
    """A completion that was too long to be scored has an error; one that was scored is not longer than the limit."""
    longest = max((len(row["completion"]) for row in unit.lines(PREDICTIONS)
                   if isinstance(row.get("completion"), str) and "error" not in row and "completion_chars" not in row),
                  default=0)
    if longest > limit:
        yield f"{EVALUATION_CONFIG}: limits.max_completion_chars is {limit}, a completion was scored of {longest}"


def _template_problems(unit: Unit, config: dict[str, Any]) -> Iterator[str]:
    """A run is asked in the chat template that it was trained with."""
    data = unit.parent.manifest.config_snapshot.get("data") if unit.parent is not None else None
    trained = data.get("template") if isinstance(data, dict) else None
    name = section_of(config, "template").get("name")
    if trained is not None and name is not None and name != trained:
        yield f"{EVALUATION_CONFIG}: template.name is {str(name)[:40]!r}, the run's is {str(trained)[:40]!r}"


def section_of(value: dict[str, Any], key: str) -> dict[str, Any]:
    """A section; empty where there is none, or where it is absent."""
    section = value.get(key)
    return section if isinstance(section, dict) and not is_absent(section) else {}
