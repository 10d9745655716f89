"""What a command printed, as the documentation shows it, and whether its source says the same.

A block (a fence, or a quotation) that a command printed is below a comment that names where it is kept, as for a
quoted number; without a place the file is a text. Lines may be left out of the middle::

    <!-- printed, from benchmarks/results/a.json: values.plan.printed -->
    ```text
    plan       fits: 5.02 GiB
    ```
"""

import json
import re
from pathlib import Path

from tools.generated import ROOT
from tools.quotes import value_at

_PRINTED = re.compile(
    r"^<!-- printed, from (?P<file>[^\s:]+)(?:: (?P<place>\S+))? -->\n"
    r"(?:```text\n(?P<fence>.*?)^```$|(?P<quotation>(?:^> [^\n]*\n)+))", flags=re.MULTILINE | re.DOTALL)


def missing_lines(text: str, root: Path = ROOT) -> list[str]:
    """Lines of a page's printed blocks that their sources do not have, in this order."""
    missing = []
    for block in _PRINTED.finditer(text):
        source = (root / block["file"]).read_text(encoding="utf-8")
        if block["place"]:
            source = str(value_at(json.loads(source), block["place"]))
        lines = iter(line.removeprefix("> ").rstrip() for line in source.splitlines())
        shown = (block["fence"] or block["quotation"]).splitlines()
        # `in` on an iterator continues after the line that it found, so the order counts.
        missing += [line for line in (each.removeprefix("> ").rstrip() for each in shown) if line and line not in lines]
    return missing
