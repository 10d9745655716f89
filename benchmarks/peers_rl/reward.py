"""The reward of all contenders, in the form that TRL and this project share; standard library only."""


def digits(prompts: list[str], completions: list[str], **columns: object) -> list[float]:
    """Share of a completion's characters that are digits: it differs between completions from the first update on."""
    return [sum(character.isdecimal() for character in text) / max(1, len(text)) for text in completions]
