"""The base of every part of a recipe: strict, frozen, and aware of which of its keys were read."""

from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, ConfigDict, PrivateAttr


class Section(BaseModel):
    """A frozen set of keys. An unknown key is refused; a key that nobody reads can be listed.

    Every access to a field is remembered, so that a run can refuse keys that were written down but that nothing
    has read before its first step (`unread_keys`): such a key would promise something that does not happen.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)

    _read: set[str] = PrivateAttr(default_factory=set)

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        if not name.startswith("_") and name in type(self).__pydantic_fields__:
            # `_read` does not exist yet while pydantic itself is still building the object.
            private = super().__getattribute__("__pydantic_private__")
            if private is not None:
                private["_read"].add(name)
        return value


def unread_keys(section: Section, prefix: str = "") -> list[str]:
    """Dotted names of the keys that were written in the recipe and that nothing has read so far."""
    names: list[str] = []
    for name in sorted(section.model_fields_set):
        value = section.__dict__[name]  # not through the attribute: looking is not reading
        if isinstance(value, Section):
            names += unread_keys(value, f"{prefix}{name}.")
        elif name not in section._read and not _names_the_variant(section, name):
            names.append(f"{prefix}{name}")
    return names


def _names_the_variant(section: Section, name: str) -> bool:
    """Whether a key has one possible value: it chose the section's class, so it decided something."""
    annotation = type(section).model_fields[name].annotation
    return get_origin(annotation) is Literal and len(get_args(annotation)) == 1
