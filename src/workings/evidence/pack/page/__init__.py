"""The page that checks a packed run in a browser, offline: its parts, put together into one file."""

import base64
import hashlib
from importlib import resources

SCRIPTS = ("zip.js", "units.js", "check.js", "page.js")
"""In the order in which they build on each other."""


def verify_page() -> bytes:
    """One HTML file, the same for every pack. Its policy allows its own script and style, and no connection."""
    # In a block, to keep its names off `window`.
    script = '"use strict";\n{\n' + "".join(map(_part, SCRIPTS)) + "}\n"
    style = _part("page.css")
    text = _part("page.html")
    # Style and script last: their bytes have to stay those that the digests are of.
    for name, value in (("script_digest", _digest(script)), ("style_digest", _digest(style)),
                        ("style", style), ("script", script)):
        text = text.replace("{" + name + "}", value)
    return text.encode("utf-8")


def _part(name: str) -> str:
    return resources.files(__name__).joinpath(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """The name of an inline script in a content security policy."""
    return base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
