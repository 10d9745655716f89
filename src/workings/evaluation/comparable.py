"""May two scorecards be compared at all? Same items, same scorer, same extraction, same decoding, same template."""

from typing import Any

_MUST_AGREE = (
    ("items", "digest", "items"),
    ("scorer", "name", "scorer"),
    ("scorer", "version", "scorer version"),
    ("extraction", "version", "extraction version"),
    ("extraction", "rules", "extraction rules"),
    ("template", "digest", "chat template"),
    ("decoding", "max_new_tokens", "decoding: max_new_tokens"),
    ("decoding", "temperature", "decoding: temperature"),
    ("decoding", "samples", "decoding: samples"),
)


def compare_configs(a: dict[str, Any], b: dict[str, Any]) -> tuple[list[str], list[str], list[str]]:
    """What forbids a comparison, what nobody knows, and what is equal, each in words.

    A value that one side does not record (predictions from elsewhere) forbids nothing, but is said.
    """
    different, unknown, equal = [], [], []
    for section, key, words in (*_MUST_AGREE, ("aggregate", "", "aggregation of samples")):
        value_a, value_b = _value(a, section, key), _value(b, section, key)
        if _is_absent(value_a) or _is_absent(value_b):
            unknown.append(f"{words} is not recorded for {_sides(value_a, value_b)}")
        elif value_a != value_b:
            different.append(f"{words} differ: {_short(value_a)} and {_short(value_b)}")
        else:
            equal.append(f"{words}: {_short(value_a)}")
    return different, unknown, equal


def _value(config: dict[str, Any], section: str, key: str) -> Any:
    value = config.get(section, {"absent": "not recorded"})
    return value if not key or _is_absent(value) else value.get(key, {"absent": "not recorded"})


def _is_absent(value: Any) -> bool:
    return isinstance(value, dict) and set(value) == {"absent"}


def _sides(a: Any, b: Any) -> str:
    return "both" if _is_absent(a) and _is_absent(b) else ("A" if _is_absent(a) else "B")


def _short(value: Any) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return f"{text[:12]}…" if len(text) == 64 and text.isalnum() else text
