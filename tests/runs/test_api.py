"""`import workings`: the verbs as functions, as people write them, and light."""

import json
import math
import threading
from pathlib import Path
from types import FunctionType

import pytest

import workings
from tests.runs.runs_helpers import write_recipe
from tools.fences import fences
from workings.config.load import load_recipe
from workings.errors import RequestError
from workings.evaluation.settings import EvaluationSettings
from workings.inputs.datasets import find_data
from workings.record.progress import ProgressListener, report_progress_to
from workings.runs.attempt import rate_text
from workings.runs.evaluate import Question, ask
from workings.runs.python_api.given import recipe_rewards, rows_of
from workings.runs.python_api.train import Keywords, keyword_recipe
from workings.scoring.rewards import CompletionToReward, RewardProcess
from workings.serving.answering import Pieces
from workings.ways.parts.training_data import reward_settings

SHAPE = {"source": "scratch", "shape": {"layers": 1, "width": 8, "mlp_width": 8, "heads": 1, "kv_heads": 1,
                                        "head_dim": 8}}
UNIGRAM = {"engine": "unigram", "device": "cpu", "memory": {}, "data.max_length": 64, "batch.accumulation": 1,
           "optimizer": {"name": "adamw"}, "evaluation.max_new_tokens": 4}
ROWS = [{"prompt": f"What is {n}+1?", "steps": [f"{n}+1={n + 1}"], "answer": str(n + 1)} for n in range(20)]
QUESTIONS = [{"prompt": f"What is {n}+1?", "expected_answer": n + 1} for n in range(20)]
ITEMS = [{"question": f"What is {n}+2?", "answer": n + 2} for n in range(10)]


def test_the_verbs_as_functions(tmp_path):
    recipe = write_recipe(tmp_path / "asked")
    trained = workings.train(str(recipe), str(tmp_path / "run"), {"training.steps": 3, "training.warmup_steps": 1})
    assert (trained.status, len(trained.metrics)) == ("complete", 3)
    learned = []
    scorecard = workings.evaluate(str(tmp_path / "run"), recipe.with_name("items.jsonl"), tmp_path / "again",
                                   settings=EvaluationSettings(max_new_tokens=4, batch_size=8, form="tags", seed=5))
    with pytest.raises(RequestError, match="no-device"):
        workings.evaluate(str(tmp_path / "run"), recipe.with_name("traces.jsonl"), tmp_path / "none",
                          device="no-device", on_trained_items=learned.extend)
    with pytest.raises(RequestError, match="a sealed run directory"):  # the items may be rows
        workings.evaluate(tmp_path, [{"prompt": "1+1?", "expected_answer": 2}], tmp_path / "none")
    assert learned, "trained questions are named before the model is opened"
    assert scorecard.overall.n == trained.scorecard.overall.n == 10
    comparison = workings.compare(str(tmp_path / "run"), tmp_path / "again")
    assert comparison.to_json()["items"] == 10
    assert workings.verify(str(tmp_path / "run")).failed == 0
    assert trained.verify(level=1).level == 1
    assert dir(workings) == ["Run", "__version__", "compare", "evaluate", "plan", "train", "verify"]
    with pytest.raises(AttributeError, match="no attribute 'deploy'"):
        workings.deploy  # noqa: B018


def test_the_lines_beside_those_of_trl_run(tmp_path, monkeypatch):
    page = Path("docs/reference/coming-from.md").read_text("utf-8")
    code = next(fence.code for fence in fences(page) if "workings.train" in fence.code)
    monkeypatch.chdir(tmp_path)
    Path("rows.jsonl").write_text("".join(json.dumps({"messages": [
        {"role": "user", "content": row["prompt"]}, {"role": "assistant", "content": row["answer"]}]}) + "\n"
        for row in ROWS))
    names = {"SHAPE": SHAPE, "OVERRIDES": {key: value for key, value in UNIGRAM.items() if "evaluation" not in key}}
    exec(code.replace('"Qwen/Qwen3-0.6B"', "SHAPE, overrides=OVERRIDES"), names)
    assert (names["run"].status, names["run"].path) == ("complete", Path("runs/scratch-full"))


def test_rows_and_a_model_are_a_run_that_keeps_them_and_draws_itself(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    seen = []
    run = workings.train(model=SHAPE, data=ROWS, items=ITEMS, method="full", steps=4, overrides=UNIGRAM,
                         callbacks=[lambda line: seen.append(line["step"])])
    assert (str(run.path), seen) == ("runs/scratch-full", [1, 2, 3, 4])
    assert (run.path / "data/traces.jsonl").read_text().count("\n") == 20
    assert "traces: ../data/traces.jsonl" in run.recipe
    assert run.verify().failed == 0
    assert run.scorecard.overall.n == 10
    page = run._repr_html_()
    assert "&lt;svg" in page
    assert "<svg" not in page  # inside of its frame alone
    # What it prints trains the same again, from the run's own copies.
    assert repr(run).splitlines()[-1] == f"to repeat it: {run.command}"
    loaded = load_recipe(str(run.path / "config/recipe.yaml"), UNIGRAM)
    again = workings.train(loaded, "runs/again")
    assert again.record.manifest.final_loss == run.record.manifest.final_loss
    assert again.record.manifest.data_digests == run.record.manifest.data_digests

    opened = workings.Run.open(str(run.path))
    assert f"accuracy {100 * run.scorecard.overall.mean:.1f} % on 10 items\n" in repr(opened)
    pieces = []
    heard = []

    class Listens(ProgressListener):
        def begins(self, what):
            heard.append(what)

        def ends(self):
            heard.append(len(pieces))

    with report_progress_to(Listens()):
        reply = ask(opened.path, Question(text="What is 1+1?", max_new_tokens=3), show=pieces.append)
    # The status is shown until there is a first piece of the answer.
    assert [one for one in heard if isinstance(one, str)][-2:] == ["opening the trained model", "answering"]
    assert heard[-1] == 0
    assert opened.ask("What is 1+1?", max_new_tokens=3) == reply.text == "".join(pieces)
    with pytest.raises(RequestError, match="max_new_tokens is 0"):
        opened.ask("What is 1+1?", max_new_tokens=0)
    assert reply.tokens == 3
    assert opened.evaluate([{"id": "a", "prompt": "1+1?", "expected_answer": 2}], "more").overall.n == 1
    assert set(opened.evaluations) == {"items", "more"}
    with pytest.raises(RequestError, match="runs/scratch-full already has an evaluation name='more'"):
        opened.evaluate(ITEMS, "more")
    # A file that is called as the run's own evaluation is: another name is found for what it becomes.
    (tmp_path / "items.jsonl").write_text('{"id": "a", "prompt": "1+1?", "expected_answer": "2"}\n')
    assert opened.evaluate("items.jsonl").overall.n == 1
    assert set(workings.Run.open("runs/scratch-full").evaluations) == {"items", "items-2", "more"}
    assert opened.compare(again).verdict == "inconclusive"


def test_pieces_are_whole_characters():
    class Bytes:
        def decode(self, ids):
            return bytes(ids).decode("utf-8", "replace")

    told = []
    pieces = Pieces(Bytes(), told.append)
    for token in "1 €!".encode()[:-1] + b"\xe2":
        pieces.add(token)
    pieces.show_up_to("1 €\N{REPLACEMENT CHARACTER}")
    assert told == ["1", " ", "€", "\N{REPLACEMENT CHARACTER}"]


def test_a_tracker_that_is_none_is_refused_first(tmp_path):
    with pytest.raises(RequestError, match="tracker wandbb"):
        workings.train(write_recipe(tmp_path / "asked"), tmp_path / "none", track="wandbb")
    assert not (tmp_path / "none").exists()


@pytest.mark.children
def test_a_callback_stops_a_run_and_a_thread_may_train(tmp_path):
    recipe, ended = write_recipe(tmp_path / "asked"), []

    def work():
        ended.append(workings.train(recipe, tmp_path / "run", callbacks=[lambda line: line["step"] < 2]))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert [(run.status, len(run.metrics)) for run in ended] == [("interrupted", 2)]


def test_frames_and_data_sets_are_rows():
    class Frame:
        columns = ("prompt", "n")

        def to_dict(self, how):
            assert how == "records"
            return [{"prompt": "a", "n": float("nan")}, {"prompt": "b", "n": 2}]

        def __ne__(self, other):
            raise ValueError("the truth value of a frame is ambiguous")

    class Dataset:
        column_names = ("prompt",)

        def to_list(self):
            return [{"prompt": "a", "n": None}]

    assert rows_of(Frame(), "data") == [{"prompt": "a", "n": None}, {"prompt": "b", "n": 2}]
    with pytest.raises(RequestError, match="a recipe does not go with data"):
        workings.train("smoke-tiny", data=Frame())
    assert rows_of(Dataset(), "data") == [{"prompt": "a", "n": None}]


@pytest.mark.parametrize(("keywords", "said"), [
    ({}, "a recipe, or model and data"),
    ({"recipe": "smoke-tiny", "data": ROWS}, "a recipe does not go with data"),
    ({"model": "x", "data": [], "steps": 1}, "data: no rows"),
    ({"model": "x", "data": ["text"], "steps": 1}, "a row of type str"),
    ({"model": "x", "data": [{"a": "1"}], "steps": 1}, "data: the first row has the keys a"),
    ({"model": "x", "data": [{"prompt": "1+1?", "answer": [2]}], "steps": 1}, "`answer` must be a text, not a list"),
    ({"model": "x", "data": [{"prompt": "1+1?", "chosen": None, "rejected": "3"}], "steps": 1}, "`chosen` is null"),
    ({"model": "x", "data": [{"prompt": "Hi", "answer": "Hi"}, *ROWS], "steps": 1},
     "row 1 reads as question-answer, and row 2 as traces"),
    ({"model": "x", "data": 5, "steps": 1}, "data is of type int"),
    ({"recipe": "smoke-tiny", "overrides": 5}, "overrides cannot be 5"),
    ({"model": "x", "data": {"train": ROWS}, "steps": 1}, r"(?s)a dict with train.*data=data\['train'\]"),
    ({"model": "x", "data": ROWS, "method": "lorra", "steps": 1}, r"(?s)method .lorra.*one of full, lora, qlora"),
    ({"model": "x", "data": ROWS, "method": "LoRA", "steps": 1}, r"(?s)method 'LoRA'.*method=\"lora\""),
    ({"model": "x", "data": ROWS, "method": "dpo", "steps": 1}, r"(?s)method 'dpo'.*\"algorithm.name\": \"dpo\""),
    ({"model": object(), "data": ROWS, "steps": 1}, "(?s)model is an object of type object.*save_pretrained"),
    ({"recipe": "smoke-tiny", "method": "qlora", "data": ROWS},
     r'(?s)a recipe does not go with data, method.*overrides=\{"data.traces": "FILE", "method.name": "qlora"\}'),
    ({"recipe": "smoke-tiny", "learning_rate": 0.1, "items": Path("i.jsonl")},
     r'(?s)a recipe does not go with items, learning_rate.*'
     r'\{"evaluation.items": "i.jsonl", "training.learning_rate": 0.1\}'),
    ({"recipe": ROWS}, "a recipe cannot be of type list"),
    ({"recipe": "smoke-tiny", "overrides": {"rewards": [rows_of]}},
     r'(?s)cannot hold the function rows_of.*FILE\.py:FUNCTION.*"scorer": "mine\.py:rows_of".*rewards=\[rows_of\]'),
    ({"recipe": {"name": "a", "rewards": [{"scorer": rows_of}]}}, "a recipe cannot hold the function rows_of"),
    ({"recipe": "smoke-tiny", "overrides": {"data.max_length": {1, 2}}}, "a recipe cannot hold a value of type set"),
    ({"model": "x", "data": QUESTIONS, "steps": 1}, r'(?s)have no completion to imitate.*rewards=\["answer"\]'),
    ({"recipe": "smoke-tiny", "rewards": ["answer"]},
     r'(?s)a recipe does not go with rewards.*overrides=\{"rewards": \[\{"scorer": "FILE.py:FUNCTION"'),
    ({"reward_funcs": ["answer"], "model": "x", "data": QUESTIONS}, "reward_funcs"),
])
def test_a_request_that_makes_no_run_says_what_would(keywords, said):
    with pytest.raises(RequestError, match=said):
        workings.train(**keywords)


@pytest.mark.parametrize(("keywords", "words"), [
    ({"out": "there"}, "--out there already exists"),
    ({"resume": True}, "--resume needs --out"),
    ({"steps": 0}, "neither steps nor epochs"),
    ({"epochs": 1}, "steps=3 and epochs=1"),
    ({"overrides": "training.steps=3"}, "overrides=['training.steps=3']"),
    ({"data": "gone.jsonl"}, "no file {here}/gone.jsonl"),
    ({"data": [*ROWS, {"prompt": "x"}]}, "correct that row"),
    ({"items": [{"question": "x"}]}, "items: row 1 has the keys question")])
def test_errors_name_the_arguments(keywords, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    few = {key: value for key, value in UNIGRAM.items() if not key.startswith("evaluation")}
    asked = {"model": SHAPE, "data": ROWS, "method": "full", "steps": 3, "overrides": few, **keywords}
    with pytest.raises(RequestError) as refused:
        workings.train(**asked)
    assert words.format(here=tmp_path) in str(refused.value)


def test_questions_are_rewarded_by_a_file_of_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("def brevity(prompts, **columns):\n    return [0.0] * len(prompts)\n")
    asked = Keywords(model=SHAPE, data=QUESTIONS, method="full", steps=1, overrides={
        "algorithm.name": "grpo", "rewards": [{"scorer": "mine.py:brevity"}]})
    with keyword_recipe(asked) as loaded:
        data = find_data(loaded)
        # The recipe is in its own folder, and the reward is still found.
        assert loaded.recipe.rewards[0].scorer == f"{tmp_path}/mine.py:brevity"
    assert [(item.prompt, item.expected_answer) for item in data.prompts[:2]] == [
        ("What is 0+1?", "1"), ("What is 1+1?", "2")]
    assert not data.examples


def test_a_function_given_in_python_is_a_reward(tmp_path):
    def brief(prompts, completions, **columns):
        from math import exp

        return [exp(-len(text)) for text in completions]

    asked = Keywords(model=SHAPE, data=QUESTIONS, method="full", steps=1,
                     overrides={"engine": "jax", "device": "cpu"},
                     rewards=["answer", {"scorer": brief, "weight": 0.5}, shared_reward])
    with keyword_recipe(asked) as loaded:
        recipe = loaded.recipe
        assert recipe.algorithm.name == "grpo"
        assert [(reward.scorer, reward.weight) for reward in recipe.rewards] == [
            ("answer", 1.0), ("brief.py:brief", 0.5), (f"{Path(__file__).resolve()}:shared_reward", 1.0)]
        # The run keeps the source where its recipe finds it.
        assert loaded.kept == ("data/traces.jsonl", "config/brief.py")
        source = loaded.path("brief.py").read_text()
        assert source.startswith("def brief(")
        with RewardProcess(reward_settings(loaded)) as process:
            sample = CompletionToReward(item=find_data(loaded).prompts[0], text="1", tokens=[1], truncated=False)
            assert process.score([sample])[0] == {
                "answer": 1.0, "brief.py:brief": math.exp(-1), "test_api.py:shared_reward": 7.0}
    with keyword_recipe(Keywords(model=SHAPE, data=QUESTIONS, method="full", steps=1, rewards="answer")) as loaded:
        assert [reward.scorer for reward in loaded.recipe.rewards] == ["answer"]


def shared_reward(prompts, completions, **columns):
    return [7.0 for _ in completions]


def outside(prompts, completions, **columns):
    return [float(json.loads(text) == SHAPE) for text in completions]


def test_a_function_that_no_file_can_hold_is_refused():
    name = "n" * 5

    def closed(prompts, completions, **columns):
        return [float(name in text) for text in completions]

    def annotated(prompts, completions: QUESTIONS, **columns):
        return [0.0] * len(completions)

    def private(prompts, completions, **columns):
        password = "correct-horse-1"
        return [float(text == password) for text in completions]

    unread = {}
    exec("def unread(prompts, completions, **columns):\n    return []", unread)
    copied = FunctionType(outside.__code__, outside.__globals__)
    for function, said in ((lambda **columns: [], "a lambda"), (Path, "Path is not a function"),
                           (closed, "closed uses name from outside the function"),
                           (copied, "outside uses json, SHAPE from outside the function"),
                           (annotated, "annotated uses QUESTIONS from"),
                           (unread["unread"], "the source of unread cannot be read"),
                           (private, "the source of private holds a home folder")):
        with pytest.raises(RequestError, match=said):
            recipe_rewards([function], Path("/nowhere"), str)


def test_answers_may_be_numbers_and_answers_alone_are_said():
    rows = [{"prompt": "1+1?", "answer": 2}, {"prompt": "2+2?", "answer": 4.0}, {"prompt": "1/2?", "answer": 0.5}]
    with keyword_recipe(Keywords(model="Qwen/Qwen3-0.6B", data=rows, steps=1)) as loaded:
        lines = loaded.path(loaded.recipe.data.traces).read_text().splitlines()
        assert [json.loads(line)["answer"] for line in lines] == ["2", "4", "0.5"]
        assert loaded.recipe.data.reasoning == "answer_only"
        assert "data.reasoning: answer_only: no row has steps, so only answers are learned" in loaded.chosen
    with keyword_recipe(Keywords(model="Qwen/Qwen3-0.6B", data=ROWS, steps=1)) as loaded:
        assert not [said for said in loaded.chosen if "answer_only" in said]


def test_items_that_are_trained_on_are_said_before_the_first_step_and_at_the_end(tmp_path):
    asked = [{"question": ROWS[0]["prompt"].upper(), "answer": "1"}, {"question": "Something else?", "answer": "1"}]
    run = workings.train(model=SHAPE, data=ROWS, items=asked, out=tmp_path / "run", method="full", steps=1,
                         overrides=UNIGRAM)
    log = (run.path / "train" / "training_log.txt").read_text()
    assert "leak       1 of 2 held-out items are also in the training data, such as item-00001" in log
    assert "accuracy 0.0 % on 2 items, 1 of them in the training data" in repr(run)
    assert [check.id for check in run.verify().checks if check.verdict == "failed"] == ["consistency.disjoint"]
    assert repr(run.scorecard) == "<Scorecard: 0.0 % (95 % interval 0.0 to 65.8) on 2 items>"
    assert repr(run.compare(run)).startswith("<Comparison: No difference found between run (B) and run (A): 0.0 %")


def test_letters_that_end_a_line_elsewhere_are_part_of_a_row(tmp_path):
    rows = [{"prompt": "a\u2028b\x85c", "steps": ["1+1=2"], "answer": "2"}]
    with keyword_recipe(Keywords(model="Qwen/Qwen3-0.6B", data=rows, steps=1)) as loaded:
        assert loaded.recipe.data.reasoning == "tags"


@pytest.mark.parametrize(("overrides", "given", "rate", "said"), [
    ({}, 0.0, 2e-5, "2e-05 at the only step"),
    ({"training.schedule": "constant"}, 0.0, 2e-4, "0.0002, constant"),
    (["training.schedule=constant"], 0.5, 0.5, "0.5, constant"),
    (["training.final_share=0"], 0.0, 0, "0 at the only step, which changes nothing; try: training.final_share=1"),
    ({"training.steps": 30, "training.warmup_steps": 3}, 0.0, 2e-4 / 3,
     "0.0002 at its peak, cosine to 2e-05 at the last step, 3 steps of warm-up"),
])
def test_a_short_run_learns_and_its_rate_is_said(overrides, given, rate, said):
    asked = Keywords(model="Qwen/Qwen3-0.6B", data=ROWS, steps=1, overrides=overrides, learning_rate=given)
    with keyword_recipe(asked) as loaded:
        training = loaded.recipe.training
    assert training.rate_at(1) == pytest.approx(rate)
    assert rate_text(training) == said


@pytest.mark.parametrize(("word", "advice"), [
    ("per_device_train_batch_size", 'overrides={"batch.micro_batch": …}'), ("num_train_epochs", "epochs=…"),
    ("max_length", 'overrides={"data.max_length": …}'), ("load_in_4bit", 'method="qlora"'),
    ("tokenizer", "leave it out"), ("warmup_ratio", "training.warmup_steps"),
    ("stpes", "did you mean steps?"), ("anything", "any key of a recipe")])
def test_words_of_other_trainers_are_refused_with_what_they_are_here(word, advice):
    with pytest.raises(RequestError, match=f"does not take {word}") as wrong:
        workings.train(model="Qwen/Qwen3-0.6B", data=ROWS, steps=1, **{word: 1})
    assert advice in wrong.value.try_next


AS_WRITTEN = "He bought 5*4=<<5*4=20>>20 apples.\n#### 20 "


@pytest.mark.parametrize(("rows", "overrides", "reasoning", "steps", "answer"), [
    ([{"prompt": "5*4?", "completion": AS_WRITTEN}], {}, "answer_only", [], AS_WRITTEN),
    ([{"prompt": [{"role": "user", "content": "5*4?"}], "completion": [{"role": "assistant", "content": AS_WRITTEN}]}],
     {}, "answer_only", [], AS_WRITTEN),
    ([{"prompt": "5*4?", "completion": AS_WRITTEN}], {"data.reasoning": "hashes"}, "hashes",
     ["He bought 5*4=20 apples."], "20"),
    ([{"prompt": "5*4?", "completion": "20", "reasoning": "5*4=20"}], {}, "tags", ["5*4=20"], "20")])
def test_completions_are_kept_as_written_unless_a_form_is_asked_for(rows, overrides, reasoning, steps, answer):
    with keyword_recipe(Keywords(model="Qwen/Qwen3-0.6B", data=rows, steps=1, overrides=overrides)) as loaded:
        line = json.loads(loaded.path(loaded.recipe.data.traces).read_text())
        assert (line["steps"], line["answer"], loaded.recipe.data.reasoning) == (steps, answer, reasoning)
        kept = [note for note in loaded.chosen if "completions are learned as given" in note]
        assert bool(kept) is (answer == AS_WRITTEN)


@pytest.mark.parametrize(("count", "micro_batch", "accumulation"), [
    (1, 1, 1), (8, 4, 2), (16, 4, 4), (17, 4, 3), (100, 4, 4)])
def test_few_rows_do_not_leave_most_of_an_update_empty(count, micro_batch, accumulation):
    rows = [{"prompt": f"{number}+1?", "answer": str(number + 1)} for number in range(count)]
    with keyword_recipe(Keywords(model="Qwen/Qwen3-0.6B", data=rows, steps=1)) as loaded:
        batch = loaded.recipe.batch
        assert (batch.micro_batch, batch.accumulation) == (micro_batch, accumulation)
        assert bool([note for note in loaded.chosen if note.startswith("batch: ")]) is ((
            micro_batch, accumulation) != (4, 4))
