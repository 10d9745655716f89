"""Error messages for invalid recipes: the wrong key, its line, the expected value, and the likely key.

For example::

    given:    optimizer.name cannot be adamw8, in recipe.yaml:12
    expected: optimizer.name: one of adamw, adamw8bit, adafactor, muon
    try:      did you mean `optimizer.name: adamw8bit`?
"""

import difflib
import typing
from collections.abc import Callable, Iterable, Sequence

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from workings.config.aliases import counterpart
from workings.config.recipe import known_keys, section_at
from workings.config.rewards import FILE_REWARD
from workings.config.section import REFUSED
from workings.errors import RequestError

KeySource = Callable[[tuple[str, ...]], str]
"""Function from a key to its source: `recipe.yaml:12`, or the override that set it."""

EXPECTED: dict[str, str] = {
    "int_type": "a whole number", "int_parsing": "a whole number", "int_from_float": "a whole number",
    "float_type": "a number", "float_parsing": "a number", "finite_number": "a finite number",
    "bool_type": "true or false", "bool_parsing": "true or false", "string_type": "a text",
    "tuple_type": "a list", "list_type": "a list", "dict_type": "a section", "model_type": "a section",
    "greater_than": "a number greater than {gt}", "greater_than_equal": "{ge} or more",
    "less_than": "a number less than {lt}", "less_than_equal": "{le} or less",
    "multiple_of": "a multiple of {multiple_of}",
    "string_pattern_mismatch": "a text of the form {pattern}", "too_short": "at least {min_length} entries",
}
"""Expected value by the library's kind of error; numbers in braces come from the error."""
GIVEN = "the recipe given in Python"
"""Origin of a recipe that is not a file."""
OVERRIDE = "the override "
"""Prefix of the source of a key from the command line."""


def explain(errors: list[ErrorDetails], source: KeySource) -> RequestError:
    """One error that names every wrong key, its place, the expected value, and what to type."""
    explained, missing = [], []
    errors = _without_union_noise(errors)
    # A misspelled key is both unknown and missing: `training.stepz` and `training.steps`. It is explained once.
    misspelled = {_near_key(_location(error)) for error in errors if error["type"] == "extra_forbidden"}
    for error in errors:
        location = _location(error)
        dotted = ".".join(location)
        if error["type"] != "missing":
            explained.append(_explain_value(error, location, source))
        elif dotted not in misspelled:
            explained.append(RequestError(f"`{dotted}` is missing in {source(location)}",
                                          f"`{dotted}`" + _described(location)))
            missing.append(_override_for(location))
    whole = together(explained)
    hints = [whole.try_next] if whole.try_next else []
    if missing:
        hints.append(f"what is missing, in the recipe or at the end of the command: {' '.join(missing)}")
    return RequestError(whole.given, whole.expected,
                        _joined(hints or ["`workings recipes show smoke-tiny`, which prints a whole recipe"]))


def together(errors: Sequence[RequestError]) -> RequestError:
    """Combines several errors into one, part by part."""
    return RequestError(_joined(error.given for error in errors), _joined(error.expected for error in errors),
                        _joined(error.try_next for error in errors))


def _joined(lines: Iterable[str]) -> str:
    """The distinct lines below each other, without empty ones, as a part of an error is printed."""
    # Further lines are indented by the ten characters of the label.
    return "\n          ".join(dict.fromkeys(filter(None, lines)))


def _explain_value(error: ErrorDetails, location: tuple[str, ...], source: KeySource) -> RequestError:
    """The error of a key that was written: it is unknown, or its value is wrong."""
    dotted, where = ".".join(location) or "the recipe", source(location)
    if error["type"] == REFUSED:
        part = error["ctx"]
        return RequestError(f"{part['given']}, in {where}", part["expected"], part["try_next"])
    if error["type"] == "extra_forbidden":
        parent = f"a key of `{'.'.join(location[:-1])}`" if location[1:] else "a key of a recipe"
        return RequestError(f"the key {dotted} is unknown, in {where}", parent, _did_you_mean(location))
    if error["type"] == "union_tag_invalid":
        return _explain_wrong_choice(error, location, source)
    if error["type"] == "union_tag_not_found":
        return _explain_missing_choice(error, location, source)
    value = repr(error["input"])
    shown = value if len(value) <= 80 else f"{value[:77]}…"
    choices = _choices(error) if error["type"] == "literal_error" else []
    return RequestError(f"{dotted} cannot be {shown}, in {where}",
                        f"{dotted}: {_expected(error, location)}" + _described(location),
                        _near_choice(error["input"], choices, dotted)
                        or f"correct `{dotted}`; `workings recipes show smoke-tiny` prints a whole recipe")


def _explain_wrong_choice(error: ErrorDetails, location: tuple[str, ...], source: KeySource) -> RequestError:
    """The error of a section whose `name` (or `source`) is not one of the choices."""
    key = _choosing_key(error, location)
    dotted, choices, tag = ".".join(key), _choices(error), str(error["ctx"]["tag"])
    return RequestError(f"{dotted} cannot be {tag}, in {source(key)}", f"{dotted}: one of {', '.join(choices)}",
                        counterpart(tag) or _near_choice(tag, choices, dotted))


def _explain_missing_choice(error: ErrorDetails, location: tuple[str, ...], source: KeySource) -> RequestError:
    """The error of a section without the `name` (or `source`) that selects one of the choices."""
    key, written = _choosing_key(error, location), error["input"]
    dotted = ".".join(key)
    keys_of_choice = {choice.partition(": ")[2]: section.model_fields.keys()
                      for section in section_at(location) for choice in choice_of(section)}
    fitting = [f"{dotted}={choice}" for choice, keys in keys_of_choice.items() if written.keys() <= keys]
    hints = [hint for hint in map(counterpart, written) if hint]
    if written and fitting:
        hints.insert(0, f"{' or '.join(fitting)}, with {', '.join(written)}")
    return RequestError(f"`{dotted}` is missing in {source(key)}", f"{dotted}: one of {', '.join(keys_of_choice)}",
                        _joined(hints))


def _choosing_key(error: ErrorDetails, location: tuple[str, ...]) -> tuple[str, ...]:
    """The key that selects a section: ``("optimizer", "name")``."""
    return *location, str(error["ctx"]["discriminator"]).strip("'")


def _expected(error: ErrorDetails, location: tuple[str, ...]) -> str:
    if error["type"] == "literal_error":
        return f"one of {', '.join(_choices(error))}"
    if error["type"] in ("model_type", "dict_type"):
        names = sorted(_keys_at(location))
        return "a section" + (f" with {', '.join(names)}" if names else "")
    if error["type"] in EXPECTED:
        return EXPECTED[error["type"]].format(**error.get("ctx", {}))
    return error["msg"].removeprefix("Value error, ")


def _choices(error: ErrorDetails) -> list[str]:
    """The values that pydantic lists in a text such as ``'lora', 'qlora' or 'full'``."""
    context = error.get("ctx", {})
    text = str(context.get("expected") or context.get("expected_tags") or "").replace(" or ", ", ")
    return [word.strip().strip("'") for word in text.split(",")]


def _near_choice(word: object, choices: Sequence[str], dotted: str) -> str:
    """A question for the choice that begins with a word, or else the most similar one; empty if none is near."""
    text = str(word)
    near = [name for name in choices if text and name.startswith(text)] or difflib.get_close_matches(text, choices, n=1)
    return f"did you mean `{dotted}: {near[0]}`?" if near else ""


def _override_for(location: tuple[str, ...]) -> str:
    """Override words that set a missing key; for a section all that it needs, for several sections the first."""
    dotted, sections_there = ".".join(location), section_at(location)
    if not sections_there:
        return f"{dotted}=…"
    chosen = dict(choice.split(": ") for choice in choice_of(sections_there[0]))
    return " ".join(f"{dotted}.{name}={chosen.get(name, '…')}"
                    for name, field in sections_there[0].model_fields.items() if field.is_required())


def _without_union_noise(errors: list[ErrorDetails]) -> list[ErrorDetails]:
    """The errors without those of union members of another kind than the value; pydantic reports all members.

    For `model.shape: {layers: 0}` the member for a name refuses the whole value, ``(…, "shape", "str")``, and the
    section something inside of it, ``(…, "shape", "ShapeConfig", "layers")``: only the second error is kept.
    """
    outer = {tuple(error["loc"][:length]) for error in errors for length in range(len(error["loc"]) - 1)}
    return [error for error in errors
            if not (error["type"] in ("string_type", "model_type") and tuple(error["loc"][:-1]) in outer)]


def _location(error: ErrorDetails) -> tuple[str, ...]:
    """The place of a key, without the names that pydantic gives to the members of a union."""
    known = {part for key in known_keys() for part in key.split(".")}
    *parents, last = (str(part) for part in error["loc"] or ("",))
    location = [part for part in parents if part in known or part.isdigit()]
    is_key = last in known or last.isdigit() or error["type"] == "extra_forbidden"
    return (*location, last) if is_key else tuple(location)


def _did_you_mean(location: tuple[str, ...]) -> str:
    """What to type for an unknown key: the choice of the section that has it, a similar key, or all keys there."""
    *parents, last = location
    siblings = _keys_at(parents)
    if last in siblings:
        # Another choice of the section has the key.
        others = [choice for section in section_at(parents) if last in section.model_fields
                  for choice in choice_of(section) or [FILE_REWARD]]
        dotted = ".".join(location)
        # Entries of a list have no override.
        removal = "" if any(map(str.isdigit, location)) else f"; {dotted}=null leaves it out"
        return f"`{dotted}` goes with {' or '.join(f'`{other}`' for other in others)}{removal}"
    # In a file another trainer's key is renamed at the top level only.
    if other_trainers := counterpart(last):
        return other_trainers
    same_name = next((dotted for dotted in known_keys() if dotted.split(".")[-1] == last), "")
    if meant := _near_key(location) or same_name:
        return f"did you mean `{meant}`?"
    return f"keys there: {', '.join(sorted(siblings))}" if siblings else ""


def _near_key(location: Sequence[str]) -> str:
    """The most similar key of the same section; empty if none is similar."""
    *parents, last = location
    near = difflib.get_close_matches(last, sorted(_keys_at(parents) - {last}), n=1, cutoff=0.6)
    return ".".join([*parents, *near]) if near else ""


def _keys_at(location: Sequence[str]) -> set[str]:
    return {name for section in section_at(location) for name in section.model_fields}


def choice_of(section: type[BaseModel]) -> list[str]:
    """``name: grpo`` for a section that a required literal identifies."""
    return [f"{name}: {typing.get_args(field.annotation)[0]}" for name, field in section.model_fields.items()
            if typing.get_origin(field.annotation) is typing.Literal and field.is_required()]


def _described(location: Sequence[str]) -> str:
    """The meaning of a key in parentheses; empty if sections that exclude each other give it different ones."""
    if not location:
        return ""
    *parents, last = location
    meanings = {section.model_fields[last].description for section in section_at(parents)
                if last in section.model_fields}
    return f" ({meanings.pop()})" if len(meanings) == 1 else ""
