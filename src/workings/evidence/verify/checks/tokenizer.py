"""Level 1: the tokenizer is that of its digest."""

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from workings.evidence.verify.record import Unit
from workings.evidence.verify.registry import (
    check,
    finding_from,
    not_checked,
)
from workings.evidence.verify.result import CheckFinding
from workings.record.layout import TOKENIZER

SPECIAL = ("bos_token", "eos_token", "pad_token")


@check("consistency.tokenizer")
def tokenizer(unit: Unit) -> Iterator[CheckFinding]:
    """`Tokenizer.digest`, recomputed from the files without a library, because they are untrusted."""
    manifest_digest, name = unit.manifest.data_digests.get("tokenizer"), f"{TOKENIZER}/tokenizer.json"
    settings = f"{TOKENIZER}/tokenizer_config.json"
    if manifest_digest is None or not unit.has(name):
        yield not_checked(f"no {name} or no digest of it", unit, blocking=False)
        return
    # Over the parsed content, as when it was recorded: spacing and order of keys do not change a tokenizer.
    digest = tokenizer_digest(unit.json(name), unit.json_object(settings) if unit.has(settings) else {})
    problems = [] if digest == manifest_digest else [
        f"{TOKENIZER} has digest {digest[:16]}…, the manifest {manifest_digest[:16]}…"]
    yield finding_from(problems, f"digest {manifest_digest[:16]}…", unit)


def tokenizer_digest(tokenizer: Any, settings: dict[str, Any]) -> str:
    """The digest that a tokenizer with these files has (`workings.models.tokenizer.Tokenizer.digest`)."""
    # Like `Tokenizer`: older files hold a token as an object, and several named templates as a list.
    template = settings.get("chat_template")
    if isinstance(template, list):
        named = {entry.get("name"): entry.get("template") for entry in template if isinstance(entry, dict)}
        template = named.get("default")
    special = {name: value.get("content") if isinstance(value, dict) else value
               for name in SPECIAL if (value := settings.get(name))}
    parts = {"tokenizer": tokenizer, "special": {name: text for name, text in special.items() if isinstance(text, str)},
             "chat_template": template if isinstance(template, str) else ""}
    # The same form as where the digest is made: sorted keys, no escapes.
    return hashlib.sha256(json.dumps(parts, sort_keys=True, ensure_ascii=False).encode()).hexdigest()
