"""The process that scores, seen from outside: it may be gone at any moment."""

import os
import pickle
import subprocess
import sys
import threading
import time
from concurrent.futures import CancelledError
from pathlib import Path

import pytest

from workings.scoring.items import Item
from workings.scoring.settings import ScoringSettings
from workings.scoring.worker_pool import ScoringProcess

ITEM = Item(id="one", prompt="1+1?", expected_answer="2")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not say how long another process computed")
def test_a_busy_machine_changes_no_judgement(tmp_path: Path) -> None:
    """Four processes share one processor, so that what computes for 0.3 s takes longer than half a second."""
    (tmp_path / "slow.py").write_text("import time\ndef score(answer, item):\n    begun = time.process_time()\n"
                                      "    while time.process_time() - begun < 0.3: pass\n    return 1.0\n")
    processors = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(processors)})
    # Each has its own session: the kernel may share a processor by session.
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True) for _ in range(3)]
    try:
        with ScoringProcess(ScoringSettings(scorer=f"{tmp_path / 'slow.py'}:score", item_seconds=0.5)) as scoring:
            begun = time.monotonic()
            assert scoring.judge([(ITEM, "#### 2", False)])[0].score == 1
            assert time.monotonic() - begun > 0.5
            assert 0.3 < scoring.processor_seconds < time.monotonic() - begun + 5
    finally:
        for other in others:
            other.kill()
            other.wait()
        os.sched_setaffinity(0, processors)
    (tmp_path / "loops.py").write_text("def score(answer, item):\n    while True: pass\n")
    with ScoringProcess(ScoringSettings(scorer=f"{tmp_path / 'loops.py'}:score", item_seconds=0.4)) as scoring:
        assert scoring.judge([(ITEM, "#### 2", False)])[0].error == "time limit: not scored within 0.4 s"
        assert scoring.processor_seconds > 0.8  # of both children: it was tried again alone


def test_nothing_is_printed_where_the_parent_ended_first() -> None:
    """As after Ctrl-C while answers are scored: a traceback of the child would follow the parent's last sentence."""
    unread, answers = os.pipe()
    os.close(unread)
    done = subprocess.run([sys.executable, "-m", "workings.scoring.worker"], stdout=answers, stderr=subprocess.PIPE,
                          input=pickle.dumps(("tag", ScoringSettings())), check=False)
    os.close(answers)
    assert (done.returncode, done.stderr) == (0, b"")


def test_cancelled_from_another_thread_it_ends_at_once(tmp_path: Path) -> None:
    """Ctrl-C would seem to do nothing until the time limit, here an hour, is over."""
    (tmp_path / "slow.py").write_text("import time\ndef score(answer, item):\n"
                                      f"    open({str(tmp_path / 'started')!r}, 'w')\n    time.sleep(10 ** 6)\n")
    with ScoringProcess(ScoringSettings(scorer=f"{tmp_path / 'slow.py'}:score", item_seconds=3600)) as scoring:
        raised: list[BaseException] = []
        waits = threading.Thread(target=lambda: raised.append(caught(scoring)), daemon=True)
        waits.start()
        while not (tmp_path / "started").exists():
            time.sleep(0.01)
        scoring.cancel()
        waits.join()  # without end where it is broken
        assert [type(error) for error in raised] == [CancelledError]


def caught(scoring: ScoringProcess) -> BaseException:
    with pytest.raises(CancelledError) as error:
        scoring.judge([(ITEM, "#### 2", False)])
    return error.value
