"""Images, audio and video in a record: refused, because a model that reads text would be taught without them.

Source of the names: the content parts of OpenAI's chat completions and responses, of transformers' chat templates and
of Qwen's; the columns of TRL ("Dataset formats and types"), LLaMA-Factory (data/README.md) and LLaVA.
"""

from collections.abc import Mapping
from typing import Any

_KINDS = ("image", "audio", "video")
MEDIA = {name: kind for kind in _KINDS for name in (kind, f"{kind}s", f"{kind}_url", f"input_{kind}")}
"""Types of content parts, and keys of parts, turns and records -> what they hold."""
_FOR_READERS = {"image": "an image", "audio": "audio", "video": "video"}


def refuse_media(record: Mapping[str, Any], where: str, kind: object = "") -> None:
    """Raise `ValueError` where a record, a turn or a part of its content holds an image, audio or video.

    Args:
        record: one of them.
        where: the place of it, for the message.
        kind: the `type` of a part; elsewhere a key of that name means something else.
    """
    # Columns of parquet and of the Hub have every key in every row, with nothing in those that are not meant.
    keys = [key for key, value in record.items() if key in MEDIA and value]
    if isinstance(kind, str) and kind in MEDIA:
        keys.insert(0, kind)
    if keys:
        raise ValueError(f"{_FOR_READERS[MEDIA[keys[0]]]} (`{keys[0]}`) in {where}: only text can be learned from, "
                         "and the text alone would say something else")
