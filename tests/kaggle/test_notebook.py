"""The Kaggle notebook: one template, equal bytes, run from the first cell to the last."""

import ast
import json
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest

from tools import make_notebooks
from workings.config.load import load_recipe
from workings.errors import RequestError
from workings.kaggle.notebook import (
    MACHINES,
    NotebookRequest,
    cells,
    find_machine,
    kernel_metadata,
    notebook_text,
    script,
    slug,
)
from workings.publish.kaggle import processes_on, write_kaggle
from workings.record.digest import file_digest
from workings.runs.python_api.run_object import Run

ROOT = Path(__file__).resolve().parents[2]
Play = Callable[..., "subprocess.CompletedProcess[str]"]


def request_for(name: str = "gemma-2b-v5e8", **changes: object) -> NotebookRequest:
    loaded = load_recipe(name)
    values = {"name": name, "recipe": loaded.text, "libraries": ("jax",), "machine": MACHINES["v5e-8"], "data": {}}
    return NotebookRequest(**{**values, **changes})


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """A file of a wheel's name; nothing here installs it."""
    path = tmp_path / "workings-0.1.0-py3-none-any.whl"
    path.write_bytes(b"PK\x05\x06" + bytes(18))
    return path


@pytest.mark.parametrize("name", make_notebooks.RECIPES)
def test_committed_notebooks_are_what_the_tool_makes(name: str) -> None:
    assert (ROOT / "notebooks" / f"{name}.ipynb").read_text("utf-8") == make_notebooks.render(name)


def test_a_notebook_is_valid_and_its_cells_are_those_of_the_script() -> None:
    text = notebook_text(request_for())
    assert text == notebook_text(request_for())
    made = nbformat.reads(text, as_version=4)
    nbformat.validate(made)
    twin = script(request_for())
    assert [(cell.cell_type == "markdown", cell.source) for cell in made.cells] == cells(twin)
    ast.parse(twin)
    assert "@@" not in twin
    assert made.cells[0].source.startswith("# workings: gemma-2b-v5e8 on TPU v5e-8\n")


def test_what_is_overridden_is_overridden_from_the_first_look_on() -> None:
    """Doctor, plan, smoke run and training: a model that is attached as an input is not first looked for on the Hub."""
    told: dict[str, Any] = {}
    source = next(source for _, source in cells(script(request_for())) if '"doctor"' in source)
    plan = SimpleNamespace(reasons=[], verdict=SimpleNamespace(fits=True))
    exec(source, {
        "OVERRIDES": {"model.id": "/kaggle/input/x", "training.epochs": 2, "data.packing": True}, "SMOKE": False,
        "WORKINGS": ["workings"], "TARGET": "v5e-8", "SCRATCH": Path(), "json": json,
        "command": lambda *words: told.update(doctor=words),
        "workings": SimpleNamespace(plan=lambda *words: told.update(plan=words) or plan,
                                    train=lambda *words, **more: told.update(train=words))})
    words = ("model.id=/kaggle/input/x", "training.epochs=2", "data.packing=true")
    assert told["doctor"] == ("workings", "doctor", "recipe.yaml", *words, "--out", "runs")
    assert told["plan"][2] == told["train"][2] == {"model.id": "/kaggle/input/x", "training.epochs": 2,
                                                   "data.packing": True}


@pytest.mark.parametrize(("name", "hours", "shape", "gpu"), [
    ("v5e-8", "SESSION_HOURS = 9\n", "TpuV5E8", False), ("t4x2", "SESSION_HOURS = 12\n", "NvidiaTeslaT4", True)])
def test_settings_of_both_accelerators(name: str, hours: str, shape: str, gpu: bool) -> None:
    machine = MACHINES[name]
    assert hours in script(request_for(machine=machine))
    found = kernel_metadata("someone", "gemma-2b", machine)
    assert (found["machine_shape"], found["enable_gpu"], found["enable_tpu"]) == (shape, gpu, not gpu)
    assert found["id"] == f"someone/{slug(found['title'])}"
    assert "docker_image" not in found


@pytest.mark.parametrize(("on", "device", "target"), [
    ("", "tpu", "v5e-8"), ("", "gpu", "t4x2"), ("", "cuda", "t4x2"), ("t4x2", "tpu", "t4x2"),
    ("v5e-8", "auto", "v5e-8"), ("", "cpu", ""), ("", "auto", ""), ("h100", "gpu", "")])
def test_the_machine_follows_the_recipe(on: str, device: str, target: str) -> None:
    if target:
        assert find_machine(on, device).target == target
    else:
        with pytest.raises(RequestError, match="v5e-8 or t4x2"):
            find_machine(on, device)


@pytest.mark.parametrize("text", ['name: "x"\n', "name: '''x'''\n", 'a: """x"""\n', "a: b\\n\n", "name: x"])
def test_a_recipe_stands_in_the_notebook_as_it_was_written(text: str) -> None:
    tree = ast.parse(script(request_for(recipe=text)))
    said = next(node.value.value for node in tree.body if isinstance(node, ast.Assign)
                and getattr(node.targets[0], "id", "") == "RECIPE")
    assert said in (text, text + "\n")


def test_folders_with_wheel_and_data(wheel: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(load_recipe("gemma-2b-t4x2").text.replace("traces: dev-reasoning", "traces: data/mine.jsonl"))
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mine.jsonl").write_text('{"id": "a"}\n')
    made = write_kaggle(str(recipe), tmp_path / "out", user="some-one", wheel=wheel)
    assert (made.dataset / wheel.name).read_bytes() == wheel.read_bytes()
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=made.dataset, check=True)
    text = (made.notebook / "gemma-2b-t4x2.py").read_text()
    assert f"WHEEL_SHA256 = '{file_digest(wheel)}'" in text
    assert repr({"data/mine.jsonl": file_digest(tmp_path / "data/mine.jsonl")}) in text
    kernel = json.loads((made.notebook / "kernel-metadata.json").read_text())
    assert kernel["dataset_sources"] == [made.dataset_id] == ["some-one/workings-wheel"]
    assert json.loads((made.dataset / "dataset-metadata.json").read_text())["id"] == made.dataset_id
    assert made.gated == "google/gemma-2b"


@pytest.mark.parametrize(("changes", "says"), [
    ({"user": "a b"}, "your name on Kaggle"), ({"on": "h100"}, "v5e-8 or t4x2"), ({"wheel": Path("none.whl")}, "wheel"),
    ({"traces": __file__}, "next to the recipe or below it")])
def test_wrong_requests(wheel: Path, tmp_path: Path, changes: dict, says: str) -> None:
    recipe = tmp_path / "mine.yaml"
    asked = {"user": "a", "wheel": wheel, "traces": "dev-reasoning", **changes}
    recipe.write_text(load_recipe("gemma-2b-v5e8").text.replace("dev-reasoning", asked.pop("traces")))
    with pytest.raises(RequestError, match=says):
        write_kaggle(str(recipe), tmp_path / "out", **asked)
    assert not (tmp_path / "out").exists()


# --- single cells -------------------------------------------------------------------------------------------------

@pytest.fixture
def play(run_forked, tmp_path: Path) -> Play:
    """Runs the script's cells up to the one that holds a text, with every command of ours replaced by an echo.

    The child has default signal handlers, with any signals ignored by the shell that started the tests.
    """
    def run(*, upto: str, request: NotebookRequest, after: str = "",
            cwd: Path = tmp_path) -> subprocess.CompletedProcess[str]:
        found = [source for markdown, source in cells(script(request)) if not markdown]
        last = next(index for index, source in enumerate(found) if upto in source)
        code = "\n".join([*found[:last + 1], after])
        return run_forked("-c", code, cwd=cwd, check=False, environment={"TMPDIR": str(tmp_path)})
    return run


@pytest.mark.parametrize(("listed", "named", "says"), [
    ("ab" * 32, "", "expected " + "ab" * 32), ("", "", "a digest, and none is given"),
    ("ab" * 32, "cd" * 32, "expected " + "cd" * 32)])
def test_a_wheel_of_another_digest_is_not_installed(play: Play, wheel: Path, tmp_path: Path, listed: str, named: str,
                                                    says: str) -> None:
    folder = tmp_path / "work" / "input" / "workings-wheel"
    folder.mkdir(parents=True)
    wheel.rename(folder / wheel.name)
    if listed:
        (folder / "SHA256SUMS").write_text(f"{listed}  {wheel.name}\n")
    done = play(cwd=tmp_path / "work", upto="constraints.txt", request=request_for(wheel_sha256=named))
    assert done.returncode == 1
    assert says in done.stderr
    assert "pip" not in done.stdout


def test_an_older_jax_is_not_replaced_unasked(run_forked, tmp_path: Path) -> None:
    text = script(request_for())
    assert "UPGRADE_JAX = False" in text
    found = [source for markdown, source in cells(text) if not markdown]
    code = "\n".join([found[0].replace("JAX_NEEDED = ", "JAX_NEEDED = '99.0'  # "), found[1]])
    done = run_forked("-c", code, cwd=tmp_path, check=False, environment={"TMPDIR": str(tmp_path)})
    assert done.returncode == 1
    assert "this needs jax 99.0 or newer, the image has" in done.stderr
    assert "set UPGRADE_JAX = True" in done.stderr
    assert "jax[tpu]==" in done.stderr


def test_an_attached_output_is_resumed(play: Play, tmp_path: Path) -> None:
    earlier = tmp_path / "input" / "earlier-version" / "runs"
    (earlier / "gemma-2b-v5e8.partial").mkdir(parents=True)
    (earlier / "attempts.jsonl").write_text("{}\n{}\n")
    older = tmp_path / "input" / "older-version" / "runs"
    older.mkdir(parents=True)
    (older / "attempts.jsonl").write_text("{}\n")
    done = play(upto="resumes from", request=request_for())
    assert done.returncode == 0, done.stderr
    assert f"resumes from {earlier}" in done.stdout
    assert "so far: unfinished" in done.stdout
    assert (tmp_path / "runs" / "gemma-2b-v5e8.partial").is_dir()


ON_TWO_CARDS = load_recipe("smoke-tiny", ["engine=torch", "device=cpu", "mesh.fsdp=2", "evaluation=null"])


def test_pytorch_is_started_once_for_each_card() -> None:
    assert processes_on(MACHINES["t4x2"], ON_TWO_CARDS.recipe) == 2
    source = next(source for _, source in cells(script(request_for())) if "torch.distributed.run" in source)
    told: list[tuple[Any, ...]] = []
    run = SimpleNamespace(status="complete")
    exec(source, {
        "PROCESSES": 2, "SMOKE": False, "RUN": "tiny", "DEADLINE": 7, "runs": Path("runs"), "words": ["seed=1"],
        "sys": SimpleNamespace(executable="python"), "os": SimpleNamespace(environ={}),
        "status": lambda name: "complete" if told else "",
        "command": lambda *words, until: told.append((until, *words)),
        "workings": SimpleNamespace(Run=SimpleNamespace(open=lambda path: run))})
    assert " ".join(map(str, told[0])) == (
        "7 python -m torch.distributed.run --standalone --nproc-per-node 2 -m workings train recipe.yaml seed=1 "
        "--out runs/tiny --auto-resume")


@pytest.mark.full
def test_pytorch_trains_in_one_process_a_card(tmp_path: Path, run_forked) -> None:
    request = request_for("smoke-tiny", recipe=ON_TWO_CARDS.written(), machine=MACHINES["t4x2"], libraries=("torch",),
                          processes=2)
    found = [source for markdown, source in cells(script(request)) if not markdown]
    # Without doctor, plan and smoke run, which need no second process.
    code = "\n".join(["words = []" if '"doctor"' in source else source for source in found[:found.index("run")]])
    run_forked("-c", code, cwd=tmp_path, environment={"TMPDIR": str(tmp_path)})
    assert Run.open(tmp_path / "runs" / "smoke-tiny").record.manifest.device.processes == 2


def test_it_runs_from_the_first_cell_to_the_last(tmp_path: Path, tmp_path_factory, child_environment) -> None:
    from nbclient import NotebookClient

    environment = child_environment(TMPDIR=str(tmp_path_factory.mktemp("scratch")))
    made = nbformat.reads(notebook_text(request_for(smoke=True)), as_version=4)
    place = {"metadata": {"path": str(tmp_path)}}
    notebook = NotebookClient(made, timeout=None, kernel_name="python3", resources=place)
    notebook.execute(env=environment)
    out = tmp_path / "submission.zip"
    with zipfile.ZipFile(out) as archive:
        assert "runs/gemma-2b-v5e8/run_manifest.json" in archive.namelist()
    [drawn] = [cell for cell in made.cells if cell.source == "run"]
    assert "<iframe" in drawn.outputs[0]["data"]["text/html"]
    printed = "".join(output.get("text", "") for cell in made.cells if cell.cell_type == "code"
                      for output in cell.outputs)
    assert "level 2 of 2" in printed
    assert "accuracy" in printed
