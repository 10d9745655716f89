"""Writes excerpts of the published definitions that what `workings launch` writes is compared with in tests.

    python -m tests.launching.write_published TRAINJOB_CRD JOBSET_CRD PYTHON_WITH_SKYPILOT

The definitions are in the repositories of kubeflow/trainer (`manifests/base/crds/trainer.kubeflow.org_trainjobs.yaml`)
and kubernetes-sigs/jobset (`config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml`); SkyPilot's are in its
package, which the interpreter named has installed. All are under the Apache License 2.0. An excerpt keeps every key at
each level that a file of ours reaches, with what is demanded of its value; what is below keys that no file of ours
has is left out, and so are descriptions and rules in CEL. Ends in an error where a definition does not know a key of
ours.
"""

import hashlib
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.launching.making import EVERY

FOLDER = Path(__file__).parent / "published"
MORE_KEYS = "x-kubernetes-preserve-unknown-fields"
DEMANDS = ("type", "enum", "pattern", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems",
           "required", "anyOf", "oneOf", "allOf", "const", "not", "format", MORE_KEYS, "x-kubernetes-int-or-string",
           "case_insensitive_enum")
"""What a schema says of a value, next to what is in it."""
ABOUT = ("Excerpt of {source}, sha256 {digest}, under the Apache License 2.0 (LICENSE). Changed: made JSON, without "
         "descriptions and rules in CEL, and without what is below keys that our files do not have. Written by `python "
         "-m tests.launching.write_published`.")
ASK_SKYPILOT = """
import json, sky
from sky.utils import schemas
print(json.dumps({"version": sky.__version__, "schema": schemas.get_task_schema(),
                  "resources": schemas.get_resources_schema()}))
"""


def main(arguments: Sequence[str]) -> int:
    """Write three excerpts."""
    if len(arguments) != 3 or not all(Path(name).is_file() for name in arguments):
        print(__doc__)
        return 2
    FOLDER.mkdir(exist_ok=True)
    objects = [yaml.safe_load(text) for files in EVERY.values() for text in files.values() if not text.startswith("#!")]
    for path in map(Path, arguments[:2]):
        spec = yaml.safe_load(path.read_text(encoding="utf-8"))["spec"]
        kind, version = spec["names"]["kind"], spec["versions"][0]
        source = f"{path.name} ({spec['group']}/{version['name']})"
        _write(kind, ABOUT.format(source=source, digest=hashlib.sha256(path.read_bytes()).hexdigest()), excerpt(
            version["schema"]["openAPIV3Schema"], [made for made in objects if made.get("kind") == kind]))
    said = json.loads(subprocess.run([arguments[2], "-c", ASK_SKYPILOT], check=True, capture_output=True,
                                     text=True).stdout.splitlines()[-1])
    tasks = [made for made in objects if "kind" not in made]
    whole = json.dumps(said, sort_keys=True).encode()
    schema = excerpt(said["schema"], tasks)
    schema["properties"]["resources"] = excerpt(said["resources"], [task["resources"] for task in tasks])
    _write("Task", ABOUT.format(source=f"sky/utils/schemas.py of SkyPilot {said['version']}",
                                digest=hashlib.sha256(whole).hexdigest()), schema)
    return 0


def excerpt(schema: Mapping[str, Any], values: Sequence[Any]) -> dict[str, Any]:
    """What a schema demands of these values, closed: keys that it does not name are refused.

    Raises:
        KeyError: a key of ours that the schema does not name.
    """
    kept: dict[str, Any] = {key: schema[key] for key in DEMANDS if key in schema}
    inside = [value for value in values if isinstance(value, Mapping)]
    if isinstance(properties := schema.get("properties"), Mapping):
        kept["properties"] = {name: excerpt(one, below) if (below := [each[name] for each in inside if name in each])
                              else {key: one[key] for key in ("type",) if key in one}
                              for name, one in properties.items()}
        # `metadata` of the object itself is there without its fields: it is Kubernetes' own.
        if not schema.get(MORE_KEYS) and "additionalProperties" not in schema:
            kept["additionalProperties"] = False
    if isinstance(more := schema.get("additionalProperties"), Mapping):
        kept["additionalProperties"] = excerpt(more, [each[name] for each in inside for name in each])
    elif isinstance(more, bool):
        kept["additionalProperties"] = more
    if isinstance(items := schema.get("items"), Mapping):
        kept["items"] = excerpt(items, [each for value in values if isinstance(value, list) for each in value])
    for name in sorted({name for each in inside for name in each} - set(kept.get("properties", {}))):
        if kept.get("additionalProperties") is False:
            raise KeyError(name)
    return kept


def _write(kind: str, about: str, schema: dict[str, Any]) -> None:
    text = json.dumps({"$comment": about} | schema, indent=1)
    (FOLDER / f"{kind.lower()}.json").write_text(text + "\n", encoding="utf-8")
    print(kind, f"{len(text):,} characters")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
