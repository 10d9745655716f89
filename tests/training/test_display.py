"""What is shown while a run trains: rates of a window behind compilation, completions on one line."""

from workings.hardware.memory import PROCESS_PEAK
from workings.record.metrics import pace
from workings.record.number_text import about, duration
from workings.training.display import Display
from workings.training.loop import Progress


def line(step, seconds, tokens=100):
    return {"step": step, "seconds": seconds, "tokens": tokens, "loss": 1.0, "learning_rate": 0.1,
            "memory_bytes": 7, "memory_source": PROCESS_PEAK}


def test_the_pace_leaves_the_first_step_out_and_looks_at_the_last_ones():
    lines = [line(1, 60.0), line(2, 1.0), line(3, 3.0)]
    assert pace(lines[:2], 10) is None
    found = pace(lines, 10)
    assert (found.tokens_per_second, found.seconds_left) == (50.0, 14.0)
    # An attempt that resumes at step 3 compiles there.
    assert pace(lines, 10, first=3) is None
    steady = [line(step, 1.0 if step >= 10 else 100.0) for step in range(1, 40)]
    assert pace(steady, 49).seconds_left == 10.0


def test_nothing_is_said_of_speed_before_the_third_step(capsys):
    log = []
    start = Progress(step=0, position=None)
    planned = {"peak_bytes": 5, "source": "compiled", "limit_bytes": 9}, {}
    with Display("run", 4, start, log.append, planned) as display:
        for step, seconds in ((1, 60.0), (2, 1.0), (3, 1.0)):
            display.show(line(step, seconds), Progress(step=step, position=None, tokens=100 * step))
        display.sample("sample after step 3: 'Q' -> '" + "<reasoning>" * 32 + "' (length)")
    assert log[:3] == ["step 1/4  loss 1.0000  lr 0.1", "step 2/4  loss 1.0000  lr 0.1",
                       "step 3/4  loss 1.0000  lr 0.1  100 tokens/s  1 s left"]
    assert "<reasoning>" * 32 in log[3]  # the log keeps what the line leaves out
    assert capsys.readouterr().err.splitlines()[-1] == "sample after step 3: 'Q' -> '<reasoning> x32 ' (length)"


def test_no_time_is_said_in_powers_of_ten():
    assert [duration(seconds) for seconds in (0, 2.23e-6, 0.25, 89, 90)] == [
        "0 s", "less than a millisecond", "0.25 s", "89 s", "2 min"]
    assert [about(seconds) for seconds in (2.23e-6, 0.25)] == ["less than a millisecond", "about 0.25 s"]


def test_what_is_waited_for_leaves_the_count_of_steps_its_room(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "50")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")  # rich draws as on a terminal
    planned = {"peak_bytes": 5, "source": "compiled", "limit_bytes": 9}, {}
    with Display("smoke-tiny", 60_000, Progress(step=120, position=None), [].append, planned) as display:
        display.first_step_begins()
        display.begins("looking at the model")  # never ends, so the wait for the first step is drawn last
    assert "120/60000 taking the firs…" in capsys.readouterr().err
