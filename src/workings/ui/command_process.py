"""Short commands whose answer the page waits for."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from workings.errors import RequestError

# Opening a tokenizer and counting rows takes seconds; a browser would give up on a page that takes minutes.
TIMEOUT_SECONDS = 90


def ask(words: list[str], cwd: Path) -> dict[str, Any]:
    """The answer of ``workings WORDS --json``, whatever its exit code, if it gave one.

    Raises:
        RequestError: it gave no answer; what it said is in the message.
    """
    # An exit code of 1 is an answer as well (`data check` found something), so only the output decides. Standard input
    # is empty: a question on it ends at once instead of waiting for somebody.
    try:
        done = subprocess.run([sys.executable, "-m", "workings", *words, "--json"], cwd=cwd, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise RequestError(f"workings {' '.join(words)}", f"an answer within {TIMEOUT_SECONDS} s",
                           "run the command in a terminal") from None
    # Libraries print as well; the command's answer is the last line by promise of `--json`.
    last = done.stdout.strip().rpartition("\n")[2]
    try:
        value = json.loads(last)
    except ValueError:
        # The end of it: a command says its reason last.
        error_text = done.stderr.strip() or f"exit code {done.returncode}"
        raise RequestError(f"workings {' '.join(words)}", "an answer; it said: " + error_text[-1500:]) from None
    if not isinstance(value, dict):
        raise RequestError(f"workings {' '.join(words)}", "a JSON object as its answer")
    return value
