"""Rewards: values by hand, in a process that survives everything that a user's function does."""

import hashlib
import re
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from workings.config.rewards import RewardConfig
from workings.errors import RequestError, RewardError
from workings.scoring.items import Item
from workings.scoring.rewards import CompletionToReward, RewardProcess, RewardSettings, shipped_reward, total

REWARDS = TypeAdapter(tuple[RewardConfig, ...])
ITEM = Item(id="q1", prompt="7+5?", expected_answer="12", extra={"topic": "sums"})
RIGHT = "<reasoning>7+5=12; 2+2=5</reasoning><answer>12.0</answer>"


def settings(*rewards, base=Path(), **more) -> RewardSettings:
    written = tuple({"scorer": reward} if isinstance(reward, str) else reward for reward in rewards)
    return RewardSettings(**{"rewards": REWARDS.validate_python(written), "form": "tags", "max_new_tokens": 10,
                             "base": base, **more})


def sample(text=RIGHT, tokens=(1, 2, 3), *, truncated=False, item=ITEM) -> CompletionToReward:
    return CompletionToReward(item=item, text=text, tokens=tokens, truncated=truncated)


def value(reward, one) -> float:
    chosen = settings(reward)
    return shipped_reward(chosen.rewards[0], one, chosen)


@pytest.mark.parametrize(("reward", "text", "expected"), [
    ("answer", RIGHT, 1), ("exact", RIGHT, 0), ("exact", "<answer>12</answer>", 1), ("answer", "13", 0),
    ("answer", "", 0), ("form", RIGHT, 1), ("form", "12", 0), ("form", "", 0), ("steps", RIGHT, 0.5),
    ("steps", "<reasoning>7+5=12</reasoning><answer>3</answer>", 1), ("steps", "no equation", 0), ("steps", "", 0),
    # An equation in the answer is scored by its result alone.
    ("steps", "<reasoning>seven</reasoning><answer>7+5=12</answer>", 0),
])
def test_what_a_text_is_worth(reward, text, expected):
    assert value(reward, sample(text)) == expected


def test_rewards_look_behind_the_channel_where_it_is_the_form():
    thought = "<|channel>thought\nThe answer is 5, because 7+5=12\n<channel|>"
    for text, answer, form in ((f"{thought}It is 12", 1, 1), (f"{thought}13", 0, 1), (thought, 0, 0), ("12", 1, 0),
                               (thought.removesuffix("<channel|>"), 0, 0)):
        for reward, expected in (("answer", answer), ("form", form), ("steps", float(text != "12"))):
            chosen = settings(reward, form="channel")
            assert shipped_reward(chosen.rewards[0], sample(text), chosen) == expected, (text, reward)
    entries = [settings("answer", form=form).recorded()[0]["parameters"] for form in ("tags", "channel")]
    assert entries == [{"extraction_version": 5}] * 2


def test_lengths_are_counted_in_tokens():
    short, long = "x" * 1000, "x"  # a thousand characters in one token, one character in ten
    for count, length, overlong in ((0, 0, 0), (1, -0.1, 0), (6, -0.6, 0), (7, -0.7, -0.25), (8, -0.8, -0.5),
                                    (9, -0.9, -0.75), (10, -1, -1), (12, -1, -1)):
        one = sample(long if count > 6 else short, tuple(range(count)))
        assert value("length", one) == pytest.approx(length)
        assert value({"scorer": "overlong", "buffer": 4}, one) == overlong
    # Cut off before the limit, as by a shorter row: it would have gone on.
    assert value({"scorer": "overlong", "buffer": 4}, sample(tokens=(1,), truncated=True)) == -1


def test_the_sum_is_weighted():
    chosen = settings({"scorer": "answer", "weight": 2}, {"scorer": "length", "weight": 0.5})
    assert total({"answer": 1.0, "length": -0.4}, chosen) == pytest.approx(1.8)
    huge = settings({"scorer": "answer", "weight": 1e308}, {"scorer": "exact", "weight": -1e308})
    assert total({"answer": 1.0, "exact": 1.0}, huge) == 0
    for values in ({"answer": 1.0, "exact": -1.0}, {"answer": 10.0, "exact": 10.0}, {"answer": 10.0, "exact": 0.0}):
        with pytest.raises(RewardError, match="not a finite number"):
            total(values, huge)


def test_what_decides_is_recorded(tmp_path):
    code = "def f(completions, **columns): return [0.0] * len(completions)\n"
    (tmp_path / "own.py").write_text(code)
    chosen = settings("answer", "form", "steps", {"scorer": "overlong", "buffer": 4, "weight": 2}, "own.py:f",
                      base=tmp_path)
    assert chosen.recorded() == [
        {"name": "answer", "weight": 1.0, "parameters": {"extraction_version": 5}, "version": "5"},
        {"name": "form", "weight": 1.0, "parameters": {"form": "tags"}, "version": "1"},
        {"name": "steps", "weight": 1.0, "parameters": {}, "version": "2"},
        {"name": "overlong", "weight": 2.0, "parameters": {"max_new_tokens": 10, "buffer": 4}, "version": "1"},
        {"name": "own.py:f", "weight": 1.0, "parameters": {},
         "version": f"sha256:{hashlib.sha256(code.encode()).hexdigest()}"},
    ]
    with pytest.raises(ValueError, match="does not come with"):
        shipped_reward(chosen.rewards[-1], sample(), chosen)


OWN = '''
import os, sys, time
import numpy

def right(prompts, completions, completion_ids, answer, **columns):
    print("a reward may print")
    assert not sys.stdin.read()
    assert prompts == ["7+5?", "3+3?"] and columns["topic"] == ["sums", None] and answer == ["12", "6"]
    assert columns["expected_answer"] == answer
    assert columns["id"] == ["q1", "q2"] and columns["aliases"] == [[], ["six"]]
    assert "prompt" not in columns
    answer.clear()  # the next function gets its own lists
    return [numpy.float32(len(ids) * 2.5) for ids in completion_ids]

def none(completions, **columns): return [1.0, None]
def not_a_number(completions, **columns): return [1.0, float("nan")]
def short(completions, **columns): return [1.0]
def single(completions, **columns): return 1.0
def raises(completions, **columns): return {}[completions[0]]
def no_columns(prompts, completions): return [1.0, 1.0]
def wants_more(prompts, completions, gold, **columns): return [1.0, 1.0]
def hangs(completions, **columns): time.sleep(600)
def dies(completions, **columns): os._exit(9)
def eats(completions, **columns): return [len(bytearray(10**12))] * 2
number = 3
'''

OTHER = sample("6", (1,), item=Item(id="q2", prompt="3+3?", expected_answer="6", aliases=("six",)))


@pytest.fixture
def own(tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    return tmp_path


@pytest.mark.children
def test_values_come_by_name_for_each_completion(own):
    chosen = settings("answer", "form", "steps", "length", {"scorer": "overlong", "buffer": 4}, "own.py:right",
                      base=own)
    with RewardProcess(chosen) as process:
        found = process.score([sample(), OTHER])
        assert found == [
            {"answer": 1, "form": 1, "steps": 0.5, "length": -0.3, "overlong": 0, "own.py:right": 7.5},
            {"answer": 1, "form": 0, "steps": 0, "length": -0.1, "overlong": 0, "own.py:right": 2.5}]
        assert found == process.score([sample(), OTHER])
        assert process.score([]) == []
    for one, row in zip((sample(), OTHER), found, strict=True):  # what a verifier computes without a process
        assert all(value(name, one) == row[name] for name in ("answer", "form", "steps", "length"))


@pytest.mark.children
@pytest.mark.parametrize(("function", "said"), [
    ("none", r"returned None for completion 2 of 2 \(item q2\), not a finite number"),
    ("not_a_number", r"returned nan for completion 2 of 2 \(item q2\), not a finite number"),
    pytest.param("short", "returned 1 values for 2 completions", marks=pytest.mark.full),
    ("single", "returned float, not a list of 2 numbers"),
    ("raises", r"raised KeyError: .*7\+5=12.* \(own.py, line \d+\)"),
    pytest.param("no_columns", "raised TypeError: .*unexpected keyword argument", marks=pytest.mark.full),
    ("wants_more", "raised TypeError: missing a required argument: 'gold'; it is called with prompts, completions, "
     "answer, .*history, .*topic.*expected_answer.*completion_ids$"),
    ("hangs", r"time limit: not scored within 0.5 s"),
    ("dies", r"the scoring process died \(exit code 9\) \(2 completions"),
    ("eats", r"raised MemoryError: .*\(`memory_gib` is 4\)"),
])
def test_what_a_function_does_wrong_is_named(own, function, said):
    seconds = {"seconds": 0.5} if function == "hangs" else {}
    with RewardProcess(settings("answer", {"scorer": f"own.py:{function}", **seconds}, base=own)) as process:
        child = process.child
        with pytest.raises(RewardError, match=f"reward own.py:{function}: {said}") as caught:
            process.score([sample(), OTHER])
        assert caught.value.exit_code == 1
        assert child.process.poll() is not None


@pytest.mark.children
def test_a_function_has_the_memory_that_its_recipe_names(own):
    few, many = ({"scorer": f"own.py:{name}", "memory_gib": gib} for name, gib in (("eats", 1), ("short", 2.5)))
    for rewards, said in (((few,), r"`memory_gib` is 1\)"), ((few, many), r"`memory_gib` is 2.5\)")):
        with (RewardProcess(settings(*rewards, base=own)) as process,
              pytest.raises(RewardError, match=f"own.py:eats: raised MemoryError: .*{said}")):
            process.score([sample()])


def test_limits_are_recorded_where_they_are_not_the_usual_ones(own):
    usual, other = settings({"scorer": "own.py:right", "seconds": 60, "memory_gib": 4.0}, base=own), settings(
        {"scorer": "own.py:right", "seconds": 90, "memory_gib": 8}, base=own)
    assert usual.recorded() == settings("own.py:right", base=own).recorded()
    assert other.recorded()[0]["parameters"] == {"seconds": 90, "memory_gib": 8}


@pytest.mark.children
@pytest.mark.parametrize(("scorer", "said"), [
    ("own.py:number", "has no function number"),
    ("bad.py:f", r"raised ZeroDivisionError: division by zero \(bad.py, line 1\)"),
])
def test_a_file_that_cannot_be_loaded_is_named_at_the_start(own, scorer, said):
    (own / "bad.py").write_text("1 / 0\n")
    with pytest.raises(RequestError, match=said) as caught, RewardProcess(settings(scorer, base=own)):
        pass
    assert scorer in str(caught.value)


def test_a_file_that_does_not_exist_is_named_before_anything_starts(tmp_path):
    with pytest.raises(RequestError, match=r"gone\.py:f"):
        RewardProcess(settings("gone.py:f", base=tmp_path))


@pytest.mark.children
def test_a_file_that_changed_after_its_digest_was_recorded_is_refused(own):
    process = RewardProcess(settings("own.py:single", base=own))
    (own / "own.py").write_text("def single(completions, **columns): return [9.0] * len(completions)\n")
    with pytest.raises(RequestError, match="has changed since"), process:
        pass


NETWORK = '''
import asyncio, os, pty, socket, subprocess, sys, urllib.request

ATTEMPTS = {
    "socket.connect": lambda: socket.socket().connect(("127.0.0.1", 9)),
    "socket.getaddrinfo": lambda: socket.getaddrinfo("localhost", 80),
    "socket.bind": lambda: socket.socket().bind(("127.0.0.1", 0)),
    "socket.sendto": lambda: socket.socket(type=socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", 9)),
    "socket.sendmsg": lambda: socket.socket(type=socket.SOCK_DGRAM).sendmsg([b"x"], [], 0, ("127.0.0.1", 9)),
    "socket.gethostbyname": lambda: socket.gethostbyname("localhost"),
    "subprocess.Popen": lambda: subprocess.run([sys.executable, "-c", ""]),
    "os.system": lambda: os.system("true"), "os.fork": lambda: os.fork() or os._exit(0),
    "os.forkpty": lambda: os.forkpty(),
    "os.exec": lambda: os.execv(sys.executable, [sys.executable]),
    "os.posix_spawn": lambda: os.posix_spawn(sys.executable, [sys.executable, "-c", ""], {}),
    "urllib": lambda: urllib.request.urlopen("http://127.0.0.1:9/"),
}

def attempts(completions, **columns):
    told = []
    for text in completions:
        try:
            ATTEMPTS[text]()
        except OSError as error:
            told.append(float("a reward function has no" in str(error)))
        else:
            told.append(0.0)
    return told

def unguarded(completions, **columns): ATTEMPTS[completions[0]]()

async def coroutine(): return 1.0
def waits(completions, **columns): return [asyncio.run(coroutine()) for _ in completions]
'''
ATTEMPTS = re.findall(r'"([\w.]+)": lambda', NETWORK)


@pytest.mark.children
def test_there_is_no_network_and_no_other_program(tmp_path):
    (tmp_path / "net.py").write_text(NETWORK)
    with RewardProcess(settings("net.py:attempts", "net.py:waits", base=tmp_path)) as process:
        found = process.score([sample(attempt) for attempt in ATTEMPTS])
    assert [attempt for attempt, row in zip(ATTEMPTS, found, strict=True) if not row["net.py:attempts"]] == []
    assert found[0]["net.py:waits"] == 1  # what needs no network runs
    with RewardProcess(settings("net.py:unguarded", base=tmp_path)) as process, pytest.raises(
            RewardError, match=r"raised PermissionError: a reward function has no network \(socket.connect\)"):
        process.score([sample("socket.connect")])
