"""A strict YAML reader: YAML 1.2 scalars, no tags, no anchors, no duplicate keys.

PyYAML follows YAML 1.1, in which ``4e-3`` is a text, ``off`` is false and ``1:30`` is ninety. The resolvers here are
those of YAML 1.2's core schema. Anchors are refused because a few lines can expand to gigabytes.
"""

import re
from typing import Any, ClassVar

import yaml

from workings.errors import RequestError


class _Reader(yaml.SafeLoader):
    """`yaml.SafeLoader` with YAML 1.2 scalars, refusing anchors and double keys."""

    # Empty, because SafeLoader's are those of YAML 1.1; a new dict, because PyYAML shares it among classes.
    yaml_implicit_resolvers: ClassVar[dict[str, list[tuple[str, re.Pattern[str]]]]] = {}  # type: ignore[misc]

    def compose_node(self, parent: Any, index: Any) -> Any:
        # Aliases, not anchors, multiply; refuse them before anything is built.
        if self.check_event(yaml.events.AliasEvent):
            raise yaml.composer.ComposerError(None, None, "anchors and aliases are not allowed here",
                                              self.peek_event().start_mark)  # type: ignore[no-untyped-call]
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        # PyYAML silently ignores the first of two equal keys.
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise yaml.constructor.ConstructorError(None, None, f"key {key!r} is not a text", key_node.start_mark)
            if key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"key {key!r} is written twice",
                                                        key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


# PyYAML uses the first matching pattern for a scalar's first character: integers must come before floats.
for _tag, _pattern, _first in (
    ("bool", r"^(?:true|false)$", ("t", "f")),
    ("int", r"^[-+]?[0-9]+$", tuple("-+0123456789")),
    ("float", r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$", tuple("-+.0123456789")),
    # PyYAML looks up an empty value under the empty text.
    ("null", r"^(?:null|~|)$", ("n", "~", "")),
):
    for _character in _first:
        _Reader.yaml_implicit_resolvers.setdefault(_character, []).append(
            (f"tag:yaml.org,2002:{_tag}", re.compile(_pattern)))


def parse_yaml(text: str, origin: str) -> Any:
    """The value of one YAML document. Raises `RequestError` naming ``origin``, line and column."""
    try:
        return yaml.load(text, Loader=_Reader)  # noqa: S506 - a SafeLoader, see above
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{origin}, line {mark.line + 1}, column {mark.column + 1}" if mark else origin
        raise RequestError(f"{where} is not YAML: {getattr(error, 'problem', None) or error}", "one YAML document",
                           "fix that line; `workings recipes show smoke-tiny` prints a whole recipe") from None
    # PyYAML recurses with the depth of the text; a number of more than 4,300 digits is a ValueError.
    except (RecursionError, ValueError) as error:
        raise RequestError(f"{origin} cannot be read ({type(error).__name__})",
                           "a YAML document of ordinary depth and values") from None


def key_lines(text: str) -> dict[tuple[str, ...], int]:
    """Line (from 1) of each key and list entry (from 0) by its place, such as ``("training", "steps")``."""
    lines: dict[tuple[str, ...], int] = {}

    def walk(node: Any, location: tuple[str, ...]) -> None:
        if isinstance(node, yaml.MappingNode):
            entries = [(str(key.value), key, value) for key, value in node.value]
        elif isinstance(node, yaml.SequenceNode):
            entries = [(str(number), value, value) for number, value in enumerate(node.value)]
        else:
            return
        for name, start, value in entries:
            # YAML counts lines from 0, editors from 1.
            lines[*location, name] = start.start_mark.line + 1
            walk(value, (*location, name))

    # Parsed again only for a message, because values do not have line numbers.
    walk(yaml.compose(text, Loader=_Reader), ())
    return lines
