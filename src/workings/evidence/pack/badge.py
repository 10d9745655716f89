"""A badge for a README: that a pack is sealed, and under which root digest."""

from xml.sax.saxutils import escape

SHOWN_DIGITS = 12
"""Digits of the root on the badge; all of them stand in its title. They are to be recognized, not to be relied on."""
_LABEL, _LEFT, _RIGHT, _HEIGHT = "sealed by workings", 122, 128, 20


def badge(root: str) -> bytes:
    """SVG. It says which root it is about and not that anything is true: whoever sees it checks the pack with it.

    Args:
        root: the pack's root digest.
    """
    width = _LEFT + _RIGHT
    title = escape(f"{_LABEL}, root digest {root}")
    texts = "".join(
        f'<text x="{left + width / 2:g}" y="14" textLength="{width - 14}" fill="#fff">{escape(words)}</text>'
        for left, width, words in ((0, _LEFT, _LABEL), (_LEFT, _RIGHT, f"root {root[:SHOWN_DIGITS]}")))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{_HEIGHT}" role="img" '
            f'aria-label="{title}"><title>{title}</title>'
            f'<rect width="{width}" height="{_HEIGHT}" rx="4" fill="#3d3a36"/>'
            f'<path d="M{_LEFT} 0h{_RIGHT - 4}a4 4 0 0 1 4 4v{_HEIGHT - 8}a4 4 0 0 1-4 4h-{_RIGHT - 4}z" '
            f'fill="#0b5fae"/>'
            f'<g font-family="ui-monospace,Menlo,Consolas,monospace" font-size="11" text-anchor="middle">{texts}</g>'
            "</svg>\n").encode()
