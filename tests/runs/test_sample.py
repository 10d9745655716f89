"""`workings data sample` with a run and with weights, on both engines; killed while it draws, it ends the same."""

import json
import signal
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from tests import kept_folders
from tests.evaluation.making import records, write_lines
from tests.runs.runs_helpers import DIES_WITHIN_THE_SECOND_BATCH, refused
from workings.data.traces import read_traces
from workings.evidence.verify import verify
from workings.inputs.datasets import read_prompts
from workings.publish.export import export_run
from workings.record.seal import root_digest
from workings.runs.train import train
from workings.scoring.items import read_items

pytest.importorskip("jax")
pytest.importorskip("torch")
pytestmark = pytest.mark.slow
Workings = Callable[..., "CompletedProcess[str]"]

RECIPE = """# small enough to learn a dozen sums in seconds, and not all of them
name: tiny
engine: jax
device: cpu
model:
  source: scratch
  shape: {layers: 1, width: 32, mlp_width: 64, heads: 2, kv_heads: 1, head_dim: 16}
tokenizer: train
data: {traces: traces.jsonl, template: gemma, reasoning: tags, max_length: 128, buckets: [128]}
batch: {micro_batch: 12}
training: {steps: 80, learning_rate: 1e-2, schedule: constant}
optimizer: {name: adamw, clip_norm: 1.0}
"""
COUNT = 12
WORDS = ("--samples", "4", "--max-new-tokens", "64", "--device", "cpu", "--json")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run that is now and then right, its weights, and the traces that it learned."""
    def make(folder: Path) -> None:
        write_lines(folder / "traces.jsonl", [
            {"id": f"{a}+{b}", "prompt": f"What is {a}+{b}?", "steps": [f"{a}+{b}={a + b}"], "answer": str(a + b)}
            for a in range(4) for b in range(3)])
        (folder / "tiny.yaml").write_text(RECIPE)
        export_run(train(str(folder / "tiny.yaml"), folder / "run", []).run, folder / "model")

    return kept_folders.copy(make, tmp_path_factory.mktemp("sampled"), "sampled")


def answer(done: "CompletedProcess[str]") -> dict[str, Any]:
    return dict(json.loads(done.stdout.splitlines()[-1]))


def weights(made: Path, engine: str, out: Path) -> list[str | Path]:
    return ["data", "sample", made / "model", "--template", "gemma", "--form", "tags", "--engine", engine, "--prompts",
            made / "traces.jsonl", "--out", out, *WORDS]


def test_a_run_draws_and_learns_from_what_was_right(made: Path, tmp_path: Path, workings: Workings) -> None:
    done = workings("data", "sample", made / "run", "--prompts", made / "traces.jsonl", "--out", made / "drawn",
                    "--pairs", "right-wrong", "--prompts-out", tmp_path / "sometimes.jsonl", *WORDS)
    said = answer(done)
    assert (said["prompts"], said["samples"], said["root"]) == (COUNT, 4 * COUNT, root_digest(made / "drawn"))
    assert said["never"] + said["sometimes"] + said["always"] == COUNT
    assert said["kept"] + sum(said["left_out"].values()) == 4 * COUNT
    assert said["kept"] > 0, "a model that is now and then right is needed"
    assert "128 completions at a time: fits" in done.stderr
    lines = records(made / "drawn")
    assert len({line["seed"] for line in lines}) == 4 * COUNT
    kept = read_traces(made / "drawn" / "kept.jsonl")
    right = {f"{line['id']}/{line['sample']}": line for line in lines if line["score"] == 1}
    for trace in kept:
        line = right[trace.id]
        assert line["completion"] == f"<reasoning>{''.join(trace.steps)}</reasoning><answer>{trace.answer}</answer>"
        assert trace.source == f"samples of run {root_digest(made / 'run')[:16]}"
    scores = {name: [line["score"] for line in lines if line["id"] == name] for name in (line["id"] for line in lines)}
    assert [item.id for item in read_items(tmp_path / "sometimes.jsonl")] == [
        name for name, found in scores.items() if 0 < sum(found) < len(found)]
    assert said["sometimes"] > 0
    # Next to the run it came from, which was trained on these very questions: samples may be of them.
    found = verify(made)
    verdicts = {one.id: one.verdict for one in found.checks}
    assert [one.text for one in found.checks if one.verdict == "failed"] == []
    assert verdicts["consistency.made_from"] == verdicts["recompute.selection"] == "passed"
    assert "consistency.disjoint" not in verdicts


@pytest.mark.parametrize("engine", ["jax", pytest.param("torch", marks=pytest.mark.full)])
def test_both_engines_draw_from_weights(made: Path, tmp_path: Path, workings: Workings, engine: str) -> None:
    said = answer(workings(*weights(made, engine, tmp_path / engine)))
    assert (said["samples"], said["kept"] > 0) == (4 * COUNT, True)
    config = json.loads((tmp_path / engine / "eval_config.json").read_bytes())
    assert (config["engine"]["name"], config["decoding"]["batch_size"]) == (engine, 128)
    assert verify(tmp_path / engine).failed == 0


def test_killed_while_it_draws_it_ends_the_same(made: Path, tmp_path: Path, workings: Workings,
                                                run_forked: Workings) -> None:
    workings(*weights(made, "torch", tmp_path / "whole"), "--batch-size", "16")
    asked = weights(made, "torch", tmp_path / "killed")
    killed = run_forked("-c", DIES_WITHIN_THE_SECOND_BATCH, *asked, "--batch-size", "16", check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert not (tmp_path / "killed").exists()
    # The number is not given again: memory may be scored otherwise now, and what was begun goes on as it was.
    done = workings(*asked)
    assert "16 completions at a time, as before the interruption" in done.stderr
    for file in sorted(path.name for path in (tmp_path / "whole").iterdir()):
        assert (tmp_path / "killed" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes(), file
    assert verify(tmp_path / "killed").failed == 0


def test_what_was_asked_for_wrongly_is_named(made: Path, tmp_path: Path) -> None:
    asked = ["data", "sample", made / "run", "--prompts", made / "traces.jsonl", "--out", tmp_path / "x"]
    for more, text in ((("--keep", "good"), "keep: good is unknown"),
                       (("--pairs", "all"), "pairs is unknown"),
                       (("--temperature", "0"), "greedy samples are all the same"),
                       (("--template", "gemma"), "cannot be used with a sealed run"),
                       (("--form", "any"), "the form any"),
                       (("--prompts", "nothing.jsonl"), "there is no file nothing.jsonl"),
                       (("--prompts-out", made / "traces.jsonl"), "traces.jsonl exists"),
                       (("--prompts-out", tmp_path / "no" / "p.jsonl"), "there is no folder")):
        assert text in refused(*asked, *more)
    assert not (tmp_path / "x").exists()


def test_prompts_are_items_traces_or_a_shipped_set(made: Path, tmp_path: Path) -> None:
    traces = read_prompts(str(made / "traces.jsonl"))
    assert (traces[5].id, traces[5].prompt, traces[5].expected_answer) == ("1+2", "What is 1+2?", "3")
    write_lines(tmp_path / "items.jsonl", [item.to_json() for item in traces])
    assert read_prompts("items.jsonl", tmp_path) == traces
    assert len(read_prompts("dev-reasoning")) > 100
