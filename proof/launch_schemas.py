"""What `workings launch` writes, compared with the schemas that Kubeflow Trainer, JobSet and SkyPilot publish.

    python -m proof.launch_schemas TRAINJOB_CRD JOBSET_CRD PYTHON_WITH_SKYPILOT

The two definitions (`trainer.kubeflow.org_trainjobs.yaml`, `jobset.x-k8s.io_jobsets.yaml`) are in the repositories of
kubeflow/trainer and kubernetes-sigs/jobset; together they have over a megabyte, and are not kept here. A cluster drops
unknown keys silently, so they are refused here: every object of the schema is closed. With each object goes a spoiled
one that must be refused. SkyPilot's own reader is asked in a process of the interpreter named, which has it installed.
Exits with 3 where one of the three is not there. Writes `proof/launch_schemas.json`.
"""

import copy
import hashlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator

from tests.launching.making import EVERY
from tools.result_file import write_result

READ_TASK = """
import sys, sky
task = sky.Task.from_yaml(sys.argv[1])
print(sky.__version__, task.num_nodes, task.resources)
"""
MORE_KEYS = "x-kubernetes-preserve-unknown-fields"


def main(arguments: list[str]) -> int:
    """Validate, write, say whether all is as it must be."""
    if len(arguments) != 3 or not all(Path(name).is_file() for name in arguments):
        print("not measured: two definitions and an interpreter are needed", __doc__, sep="\n")
        return 3
    schemas, sources = {}, {}
    for path in map(Path, arguments[:2]):
        definition = yaml.safe_load(path.read_text(encoding="utf-8"))
        version = definition["spec"]["versions"][0]
        kind = definition["spec"]["names"]["kind"]
        schemas[kind] = closed(version["schema"]["openAPIV3Schema"])
        sources[kind] = {"version": version["name"], "file": path.name,
                         "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    rows = [row for name, files in EVERY.items() for text in files.values() if not text.startswith("#!")
            for row in judged(name, text, schemas, arguments[2])]
    passed = all(row["accepted"] and row["spoiled_refused"] for row in rows)
    write_result(words="TRAINJOB_CRD JOBSET_CRD PYTHON_WITH_SKYPILOT",
                 values={"schemas": sources, "files": len(rows), "passed": passed, "rows": rows})
    print(json.dumps(rows, indent=1))
    return 0 if passed else 1


def judged(name: str, text: str, schemas: dict[str, Any], python: str) -> Iterator[dict[str, Any]]:
    """One file as it is, and spoiled."""
    made = yaml.safe_load(text)
    if (kind := made.get("kind", "")) in schemas:
        wrong = [error.message for error in Draft202012Validator(schemas[kind]).iter_errors(made)]
        refused = all(any(Draft202012Validator(schemas[kind]).iter_errors(bad)) for bad in spoiled(made))
        yield {"file": name, "reader": f"schema of {kind}", "accepted": not wrong, "errors": wrong,
               "spoiled": len(list(spoiled(made))), "spoiled_refused": refused}
        return
    found = read_task(made, python)
    refused = all(read_task(bad, python).returncode != 0 for bad in spoiled_tasks(made))
    # It may say other things before.
    said = found.stdout.splitlines()[-1:]
    yield {"file": name, "reader": " ".join(["SkyPilot", *(line.split(maxsplit=1)[0] for line in said)]),
           "accepted": found.returncode == 0, "errors": found.stderr.splitlines()[-1:] if found.returncode else [],
           "spoiled": len(list(spoiled_tasks(made))), "spoiled_refused": refused}


def closed(schema: Any) -> Any:
    """The schema with no other keys than those that it names, but where it says that there may be others."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: closed(value) for key, value in schema.items()}
    properties = schema.get("properties")
    # `metadata` of the object itself is there without its fields: it is Kubernetes' own.
    if isinstance(properties, dict) and schema.get("type") == "object" and not schema.get(MORE_KEYS):
        made.setdefault("additionalProperties", False)
    return made


def spoiled(made: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The object with one thing wrong."""
    for change in ({"replicas": "two"}, {"numNode": 2}):
        bad = copy.deepcopy(made)
        inner = bad["spec"].get("trainer") or bad["spec"]["replicatedJobs"][0]
        inner |= change
        yield bad


def spoiled_tasks(made: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The task with one thing wrong."""
    yield made | {"num_nodes": "two"}
    yield made | {"resource": {}}


def read_task(made: dict[str, Any], python: str) -> "subprocess.CompletedProcess[str]":
    """SkyPilot's own reading of a task, in its own folder."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "task.yaml"
        path.write_text(yaml.safe_dump(made), encoding="utf-8")
        environment = {"HOME": folder, "PATH": "/usr/bin:/bin"}
        return subprocess.run([python, "-c", READ_TASK, str(path)], cwd=folder, env=environment,
                              capture_output=True, text=True, check=False)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
