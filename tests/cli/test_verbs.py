"""The command line as a person and a script meet it."""

import json
import stat

import pytest

from tests.record import synthetic


def last_line(done):
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(("words", "said"), [
    ("train smoke-tny --out x", "workings recipes show smoke-tiny"),
    ("train smoke-tiny --out x training.stps=3", "did you mean `training.steps`?"),
    ("train smoke-tiny --out x training.steps=many", "training.steps cannot be 'many'"),
    ("train smoke-tiny --resume", "--out"),
    ("train smoke-tiny --out x training.final_share=0.1", "leave it out, or training.schedule=cosine"),
    ("plan smoke-tiny --on v5e-8 precision.rounding=stochastic", "try:      precision.rounding=nearest"),
    ("baseline set", "try:      workings compare RUN --save baselines/NAME"),
    ("sample runs/a --out x", "try:      workings data sample runs/a --out x"),
    ("trian", "given:    there is no command 'trian'\nexpected: a command that `workings -h` lists\n"
              "try:      workings train"),
    ("data nothing", "try:      workings data -h"),
    ("plan smoke-tiny --on cpu --max-steps=5", "try:      training.steps=…"),
    ("train smoke-tiny --nonsense", "given:    `workings train` has no option --nonsense"),
    ("train smoke-tiny --resum", "expected: --resume\ntry:      workings train -h"),
    ("--nonsense", "try:      workings -h"),
    ("eval nowhere --template plain --items none.jsonl", "--out is missing"),
    ("eval nowhere --items none.jsonl", "nowhere is not a sealed run"),
    ("eval --items none.jsonl --out x", "nothing to score"),
    ("verify nowhere", "nowhere"),
    ("verify . --level 9", "a level from 0 to"),
    ("train", "given:    the recipe is missing\nexpected: a recipe file, or the name of a shipped recipe\n"
              "try:      workings train -h"),
    ("data make addition", "given:    --out is missing\nexpected: directory, or a .jsonl file for the traces\n"
                           "try:      workings data make -h"),
    ("compare runs/a", "try:      workings compare runs/a runs/B"),
    ("launch quickstart --write jobs", "slurm, kubernetes, skypilot, kaggle\ntry:      workings launch -h"),
    ("plan quickstart --on", "given:    option '--on' requires an argument\nexpected: target, e.g."),
    ("ui --port x", "try:      workings ui -h"),
    ("recipes show nothing", "smoke-tiny"),
])
def test_a_mistake_is_exit_code_2_with_a_way_on_and_no_traceback(workings, tmp_path, words, said):
    done = workings(*words.split(), cwd=tmp_path, check=False)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert said in done.stderr
    assert "given:" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_rows_are_no_recipe_and_a_run_is_looked_for_below_runs(workings, tmp_path):
    (tmp_path / "mine.jsonl").write_text('{"question": "1+1?", "answer": "2"}\n')
    synthetic.sealed_run(tmp_path / "runs" / "first")
    for words, said in ((("train", "mine.jsonl"), "mine.jsonl holds rows"),
                        (("ask", "first", "1+1?"), "did you mean runs/first?")):
        done = workings(*words, cwd=tmp_path, check=False)
        assert (done.returncode, said in done.stderr) == (2, True), done.stderr


def test_recipes_are_listed_shown_copied_and_described(workings, tmp_path):
    names = last_line(workings("recipes", "list", "--json"))["recipes"]
    assert {"quickstart", "smoke-tiny"} <= set(names)
    shown = workings("recipes", "show", "smoke-tiny").stdout
    copied = tmp_path / "mine.yaml"
    assert last_line(workings("recipes", "copy", "smoke-tiny", copied, "--json")) == {"written": str(copied)}
    assert copied.read_text() == shown
    again = workings("recipes", "copy", "smoke-tiny", copied, check=False)
    assert again.returncode == 2
    assert "already exists" in again.stderr
    schema = json.loads(workings("recipes", "schema").stdout)
    assert schema["additionalProperties"] is False
    assert "description" in schema["properties"]["seed"]


def test_what_cannot_be_opened_is_one_finding(workings, tmp_path):
    (tmp_path / "pack.zip").write_text("{}\n")
    done = workings("verify", tmp_path / "pack.zip", check=False)
    assert done.returncode == 1
    assert len(done.stdout.splitlines()) == 2, "what is wrong, and the summary"
    assert "nothing could be read" in workings("verify", "-v", tmp_path / "pack.zip", check=False).stdout
    # A file that was never a record is a mistake in what was typed, and no finding about a record.
    (tmp_path / "traces.jsonl").write_text("{}\n")
    mistaken = workings("verify", tmp_path / "traces.jsonl", check=False)
    assert (mistaken.returncode, "a packed .zip" in mistaken.stderr) == (2, True)


def test_train_ask_verify_and_score_again(workings, tmp_path):
    run = tmp_path / "runs" / "tiny"
    done = workings("train", "smoke-tiny", "--out", run, "--json", "engine=torch", "evaluation.max_new_tokens=8",
                    "--track", "tensorboard")
    result = last_line(done)
    assert [*tmp_path.rglob("events.out.tfevents.*")]
    assert result["status"] == "complete"
    assert result["steps"] == 2
    assert result["run"] == str(run)
    assert isinstance(result["final_loss"], float)
    assert "= global 4 rows" in done.stderr

    reply = last_line(workings("ask", run, "What is 47+25?", "--max-new-tokens", "5", "--json"))
    assert reply["finish_reason"] in ("stop", "length")
    assert 0 <= reply["tokens"] <= 5
    both = workings("ask", run, "What is 47+25?", "--max-new-tokens", "5", "--base", "--json")
    first, last = map(json.loads, both.stdout.splitlines()[-2:])
    assert (first, last) == (reply, {**reply, "base": last["base"]})
    earlier = json.dumps([{"role": "user", "content": "1+1?"}, {"role": "assistant", "content": "2"}])
    sampled = ["--temperature", "1", "--max-new-tokens", "8", "--json", "--seed"]
    texts = [last_line(workings("ask", run, "And 3 more?", *sampled, *words))["completion"]
             for words in (["3"], ["4"], ["3", "--history", earlier], ["3"])]
    assert texts[0] == texts[3]
    assert len(set(texts)) == 3, "another seed and earlier turns give other answers"
    for words, wrong in ((["--seed", "3"], "--seed 3 needs --temperature"),
                         (["--history", '[{"role": "narrator"}]'], "must have a role")):
        refused = workings("ask", run, "1+1?", *words, check=False)
        assert (refused.returncode, wrong in refused.stderr) == (2, True)

    checked = last_line(workings("verify", run, "--json"))
    assert (checked["failed"], checked["level"]) == (0, 2)
    assert {"id", "verdict", "text"} <= set(checked["checks"][0])
    assert workings("verify", run, "--require-level", "2", "--level", "1", check=False).returncode == 3

    summary = run / "eval" / "items" / "eval_summary.json"
    summary.chmod(summary.stat().st_mode | stat.S_IWUSR)
    summary.write_bytes(summary.read_bytes().replace(b'"correct":0', b'"correct":600', 1))
    forged = workings("verify", run, "--json", check=False)
    assert forged.returncode == 1
    assert last_line(forged)["level"] == -1
