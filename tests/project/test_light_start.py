"""What must start quickly imports no framework: `sys.modules` of a child tells."""

import json

import pytest

from tests.evidence.rewarded import rewarded_run

HEAVY = {"datasets", "flax", "grain", "huggingface_hub", "jax", "jaxlib", "libtpu", "matplotlib", "mlflow", "optax",
         "orbax", "pandas", "pyarrow", "qwix", "scipy", "statsmodels", "tensorflow", "torch", "transformers", "tunix"}
FRAMEWORKS = {"flax", "jax", "jaxlib", "optax", "pandas", "qwix", "tensorflow", "torch", "transformers", "tunix"}

PROBE = """
import json, runpy, sys
try:
    {action}
except SystemExit as end:
    code = end.code or 0
else:
    code = 0
names = sorted({{name.partition(".")[0] for name in sys.modules}})
print("\\n" + json.dumps([code, names]))
"""


def loaded(run_python, action: str, cwd) -> tuple[int, set[str]]:
    done = run_python("-c", PROBE.format(action=action), cwd=cwd)
    code, names = json.loads(done.stdout.splitlines()[-1])
    return code, set(names)


def command(*words: str) -> str:
    return f"sys.argv = {['workings', *words]!r}; runpy.run_module('workings', run_name='__main__')"


@pytest.mark.parametrize(("words", "code", "more"), [
    ("--help", 0, {"numpy", "pydantic", "tokenizers", "rich", "jinja2", "yaml"}),
    ("train --help", 0, set()),
    ("recipes list", 0, set()),
    ("recipes schema", 0, set()),
    ("train typo.yaml --out run", 2, set()),
    ("verify nothing-here", 2, set()),
])
def test_no_framework_is_imported(words, code, more, run_python, tmp_path):
    (tmp_path / "typo.yaml").write_text("nmae: x\n")
    exit_code, names = loaded(run_python, command(*words.split()), tmp_path)
    assert exit_code == code
    assert "workings" in names
    assert names & (HEAVY | more) == set()


def test_a_run_that_learned_from_rewards_is_audited_without_a_framework(run_python, tmp_path):
    """Every reward and every advantage is computed again; the tokenizer in the record is all that is needed."""
    rewarded_run(tmp_path / "tiny")
    exit_code, names = loaded(run_python, command("verify", str(tmp_path / "tiny")), tmp_path)
    assert exit_code == 0
    assert names & HEAVY == set()


@pytest.mark.parametrize(("action", "more"), [
    ("import workings; dir(workings)", {"numpy", "pydantic", "typer"}),
    ("import workings.record.writer, workings.record.reader", {"numpy", "tokenizers"}),
    ("import workings.evidence.verify", set()),
    ("import workings.scoring.worker", {"pydantic", "http"}),
    ("import workings.planning.plan, workings.engines.registry as r; r.planning_engines()", set()),
    ("import workings.runs.doctor as d; d.doctor('smoke-tiny', kernels=False)", set()),
], ids=["the package", "records", "verification", "scoring", "planning", "the doctor"])
def test_parts_of_the_package_import_no_framework(action, more, run_python, tmp_path):
    exit_code, names = loaded(run_python, action, tmp_path)
    assert exit_code == 0
    assert names & (FRAMEWORKS | more) == set()
