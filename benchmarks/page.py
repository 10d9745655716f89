"""Seconds of the local page over much: 1,000 runs listed, two runs of 10,000 items compared and paged, 100,000 steps.

Made runs, asked without a browser (no network, no drawing in the times). A first call reads files, a second finds
them in memory; both are reported and held against the limit. Then headless Chromium opens the run of 100,000 steps:
seconds until its curves stand there, and the longest time that the browser answered nobody. Exits with 3 without a
result on a busy machine, with 1 where a limit is passed.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright
from starlette.testclient import TestClient

from tests.evaluation.making import items, score
from tests.record import synthetic
from tools.result_file import ROOT, load_average, usable_cores, write_result
from workings.ui.app import make_app

RESULT = ROOT / "benchmarks" / "results" / "page.json"
TOKEN = "bench"
RUNS, ITEMS, STEPS, LIMIT_SECONDS, PAUSE_SECONDS = 1_000, 10_000, 100_000, 1.0, 0.2
WATCH = """window.pauses = [0];
new PerformanceObserver((list) => list.getEntries().forEach((entry) => window.pauses.push(entry.duration)))
  .observe({ type: "longtask", buffered: true });"""
"""Notes every task of the browser that takes longer than 50 ms."""


def make(folder: Path) -> None:
    """The runs: one made by the recorder and copied, two with large evaluations, one with a long log."""
    first = synthetic.sealed_run(folder / "many" / "run-0000")
    score(first / "eval", "items", items(60), [k < 40 for k in range(60)])
    for number in range(1, RUNS - 3):
        shutil.copytree(first, folder / "many" / f"run-{number:04}")
    asked = items(ITEMS)
    for name, right in (("a", 5_000), ("b", 5_600)):
        run = synthetic.sealed_run(folder / name)
        score(run / "eval", "items", asked, [k < right for k in range(ITEMS)])
    long = synthetic.sealed_run(folder / "long")
    line = json.loads((long / "train" / "metrics.jsonl").read_text().splitlines()[-1])
    with (long / "train" / "metrics.jsonl").open("w") as file:
        for step in range(1, STEPS + 1):
            file.write(json.dumps(line | {"step": step, "loss": 3 / step + (step % 97) / 500}) + "\n")


def timed(page: TestClient, address: str) -> dict[str, Any]:
    """First and second call, and the size of the answer."""
    found: dict[str, Any] = {}
    for name in ("first_seconds", "again_seconds"):
        started = time.perf_counter()
        answer = page.get(address)
        found[name] = round(time.perf_counter() - started, 3)
        assert answer.status_code == 200, answer.text[:300]
    return found | {"answer_bytes": len(answer.content)}


def drawn(folder: Path, cache: Path) -> dict[str, float]:
    """The run of many steps in a browser: seconds until its curves stand there, and the longest pause."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    page = subprocess.Popen([sys.executable, "-m", "workings", "ui", str(folder), "--port", "0", "--no-browser"],
                            stdout=subprocess.PIPE, text=True, env=os.environ | {"WORKINGS_CACHE": str(cache)})
    assert page.stdout is not None
    link = page.stdout.readline().strip()
    try:
        with sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
            tab = browser.new_page(viewport={"width": 1200, "height": 900})
            tab.goto(link)
            tab.add_init_script(WATCH)
            started = time.perf_counter()
            tab.goto(link.split("?")[0] + "run/long")
            tab.locator("figure canvas").nth(5).wait_for()
            seconds = time.perf_counter() - started
            tab.wait_for_timeout(500)
            longest = tab.evaluate("Math.max(...window.pauses)") / 1000
            browser.close()
    finally:
        page.send_signal(signal.SIGINT)
        page.wait(30)
        page.stdout.close()
    return {"seconds": round(seconds, 3), "longest_pause_seconds": round(longest, 3)}


def main() -> int:
    """Measure, write the result file, print a line a call."""
    load = load_average()
    if load > usable_cores() / 2:
        print(f"not measured: load average {load:.1f} on {usable_cores()} cores")
        return 3
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "runs"
        make(folder)
        page = TestClient(make_app(folder, token=TOKEN, port=8123), base_url="http://127.0.0.1:8123",
                          headers={"authorization": f"Bearer {TOKEN}"})
        pair = "run=a&run=b"
        calls = {"list_1000_runs": "/", "compare_10000_items": f"/compare?{pair}",
                 "page_of_10000_items": f"/compare?{pair}&show=both_wrong&page=40",
                 "search_10000_items": "/run/a?tab=items&q=99", "curves_100000_steps": "/api/curves/long",
                 "zoom_into_100000_steps": "/api/curves/long?low=50000&high=51000"}
        values = {name: timed(page, address) for name, address in calls.items()}
        browser = drawn(folder, Path(place) / "cache")
    write_result(RESULT, what="Seconds of the local page over many runs, items and steps.",
                 command="python -m benchmarks.page", packages=["fastapi", "starlette", "jinja2"], load_before=load,
                 values={"limit_seconds": LIMIT_SECONDS, "pause_limit_seconds": PAUSE_SECONDS, **values,
                         "browser_100000_steps": browser})
    for name, found in values.items():
        print(f"{name}: {found['first_seconds']} s, again {found['again_seconds']} s")
    print(f"100,000 steps in a browser: {browser['seconds']} s, longest pause {browser['longest_pause_seconds']} s")
    slow = any(found[key] > LIMIT_SECONDS for found in values.values() for key in ("first_seconds", "again_seconds"))
    return int(slow or browser["longest_pause_seconds"] > PAUSE_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
