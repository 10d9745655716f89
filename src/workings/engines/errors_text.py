"""What an error of a framework says, short enough for a record or a sentence."""


def first_line(error: BaseException) -> str:
    """Its first line, at most 300 characters; its type where it says nothing."""
    said = str(error).strip().splitlines()
    return said[0][:300] if said else type(error).__name__
