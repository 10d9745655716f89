"""The page in a real browser: clicked through on the runs of a real quickstart while another one is trained."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser import NewPage, chromium
from tests.reports.rewarded import rewarded_run
from tests.runs.runs_helpers import OTHER_PACKAGE
from tests.samples.making import draw
from tests.ui.making import paired_run
from workings.record.phase import process_start
from workings.samples.selection import PairRule

playwright = pytest.importorskip("playwright.sync_api")

EXAMPLE = Path(__file__).parents[2] / "examples" / "runs" / "quickstart" / "runs.zip"


@pytest.fixture(scope="module")
def new_page() -> Iterator[NewPage]:
    with chromium() as opens:
        yield opens


@pytest.fixture(scope="module")
def link(new_page: NewPage, tmp_path_factory: pytest.TempPathFactory, child_environment) -> Iterator[str]:
    """The printed link of a page over the example's two runs and a run of every other kind."""
    folder = tmp_path_factory.mktemp("page") / "folder"
    with zipfile.ZipFile(EXAMPLE) as example:
        example.extractall(folder)
    rewarded_run(folder / "rewarded")
    rewarded_run(folder / "long", ["long" * 400])
    paired_run(folder / "paired")
    draw(folder / "drawn", pairs=PairRule())
    # What is trained meanwhile sleeps between its steps: a real engine would take a core for all of the time.
    environment = child_environment(WORKINGS_CACHE=str(folder.with_name("cache")), PYTHONPATH=str(OTHER_PACKAGE),
                                    UNIGRAM_SECONDS="0.1")
    words = [sys.executable, "-m", "workings", "ui", str(folder), "--port", "0", "--no-browser"]
    page = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=folder, env=environment)
    assert page.stdout is not None
    try:
        yield page.stdout.readline().strip()
    finally:
        end_jobs(folder.with_name("cache"))
        page.send_signal(signal.SIGINT)
        page.wait()
        page.stdout.close()


def end_jobs(cache: Path) -> None:
    """End commands that a failed test has left running: they outlive the page that started them."""
    for file in cache.rglob("pid.json"):
        process = json.loads(file.read_bytes())
        # As Ctrl-C does; at once if it trains already, because the second one does not wait for a checkpoint.
        for _ in range(2):
            if process_start(process["pid"]) == process["started"] and not file.with_name("exit.json").exists():
                os.kill(process["pid"], signal.SIGINT)
                time.sleep(0.5)


def open_tab(page: Any, tab: str) -> None:
    """Click a tab's link; if nothing comes within a minute, say why and do what a person would: read it again, once."""
    link = page.get_by_role("link", name=tab, exact=True)
    try:
        link.click(timeout=60_000)
    except playwright.TimeoutError as slow:
        sys.stderr.write(f"{tab}: {page.url}: {str(slow)[-400:]}\n")
        page.reload()
        link.click()


def test_a_person_clicks_through(new_page: NewPage, link: str) -> None:
    """Start a training run, watch it, compare the two finished runs, look at items, verify, stop the training."""
    said: list[str] = []
    page = new_page(color_scheme="dark", viewport={"width": 1200, "height": 900})
    page.on("console", lambda message: said.append(message.text) if message.type in ("error", "warning")
            and "404" not in message.text else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: dialog.accept())
    page.goto(link)
    assert "token" not in page.url

    page.get_by_role("link", name="Start", exact=True).click()
    page.wait_for_url(re.compile("/start"))  # loaded: before that, nothing listens to the fields
    form = page.locator("form[action='/start/train']")
    assert form.locator("[name=recipe]").input_value() == "smoke-tiny"
    form.get_by_label("Folder of the new run").fill("live")
    form.get_by_label("training.steps").fill("100000")  # the field writes it into the text below
    assert form.get_by_label("Overrides, one").input_value() == "training.steps=100000"
    form.get_by_text("per device, for the").wait_for()
    form.get_by_label("Overrides, one").fill("training.steps=100000\nengine=unigram\ncheckpoint.every_steps=100")
    form.get_by_role("button", name="Train").click()
    page.wait_for_url(re.compile("/jobs/"))
    job, training = page.url, link.split("?")[0] + "run/live"
    # It needs a while until it has a directory.
    while page.goto(training).status == 404:
        page.goto(job)
        output = page.locator("pre").all_inner_texts()
        assert "exit code" not in page.locator("main").inner_text(), output
        time.sleep(0.5)

    page.get_by_role("link", name="Runs", exact=True).first.click()
    page.wait_for_url(re.compile(r"/$"))
    page.get_by_label("Compare runs/answer-only").check()
    page.get_by_label("Compare runs/with-steps").check()
    page.get_by_role("button", name="Compare the selected runs").click()
    page.wait_for_url(re.compile("/compare"))
    assert page.locator(".verdict").first.inner_text() == "with-steps is better"
    page.locator(".curves figure canvas").first.wait_for()
    page.get_by_role("link", name=re.compile("^both correct")).click()
    page.wait_for_url(re.compile("both_right"))  # and for its script, which listens to keys
    assert page.locator("article.item").count() > 0
    for key, number in (("j", 0), ("j", 1), ("k", 0)):
        page.keyboard.press(key)
        item = page.locator("article.item").nth(number)
        assert page.url.endswith(f"#{item.get_attribute('id')}")
        assert item.evaluate("item => item === document.activeElement")
    page.get_by_role("link", name="runs/with-steps", exact=True).first.click()
    page.get_by_text("Wrong ones first").wait_for()

    open_tab(page, "Curves")
    page.locator("figure canvas").first.wait_for()
    # A page is loaded before its next filter is used: its script listens then.
    page.get_by_label("Along").select_option("tokens")
    page.wait_for_url(re.compile("x=tokens"))
    page.get_by_label("log axis").check()
    page.wait_for_url(re.compile("log=1"))  # every state has a link
    page.get_by_label("from", exact=True).fill("100000")
    page.get_by_label("from", exact=True).press("Enter")
    page.wait_for_url(re.compile("low=100000"))
    for tab, words in (("Device", "peak, planned"), ("Recipe", "Recipe as written"),
                       ("Scorecard", "By category"), ("Log", "step 450/450")):
        open_tab(page, tab)
        page.get_by_text(words).first.wait_for()
    page.get_by_role("link", name="Items", exact=True).click()
    page.wait_for_url(re.compile("tab=items"))
    page.get_by_label("Result").select_option("wrong")
    page.wait_for_url(re.compile("result=wrong"))
    assert page.get_by_role("status").inner_text() == "11 of 600"

    page.get_by_role("link", name="Checks", exact=True).click()
    page.get_by_role("button", name="Verify", exact=True).click()
    page.get_by_text("exit code 0").wait_for()
    page.goto(link.split("?")[0] + "run/runs/with-steps?tab=checks")
    assert "level 2" in page.locator(".badge").first.inner_text()

    for name, heading in (("Plan", "Plan: will it fit"), ("Data", "Data: what the model sees")):
        page.get_by_role("link", name=name, exact=True).click()
        assert heading in page.locator("h1").inner_text()
    page.get_by_label("Recipe").select_option("smoke-tiny")
    page.get_by_role("button", name="Show").click()
    assert page.locator(".tok.learned").count() > 10

    page.goto(training)
    steps = page.locator("[data-left]").first
    before = steps.inner_text()
    page.wait_for_function("before => document.querySelector('[data-left]').innerText !== before", arg=before)
    page.locator("figure canvas").first.wait_for()
    page.get_by_role("button", name="Stop").click()
    page.wait_for_url(re.compile("/jobs/"))
    page.get_by_text("exit code 130").wait_for()
    page.goto(training)
    page.get_by_role("button", name="Resume").wait_for()
    page.context.close()
    assert said == []


RUN = "run/runs/with-steps"
PAGES = ("", RUN, f"{RUN}?tab=checks", "plan", "run/long?tab=rollouts",
         "compare?run=runs/answer-only&run=runs/with-steps", f"{RUN}?tab=items", f"{RUN}?tab=ask", "start",
         "run/long?tab=rollouts&step=9", "run/drawn")


def test_text_has_contrast_and_nothing_sticks_out(new_page: NewPage, link: str) -> None:
    """WCAG AA: at least 4.5 to 1 for text (3 to 1 where large); a narrow screen scrolls within tables only."""
    page = new_page()
    page.goto(link)
    assert page.get_by_role("button", name="Compare the selected runs").is_visible()
    base = link.split("?")[0]
    for place in PAGES:
        page.set_viewport_size({"width": 400, "height": 900})
        page.goto(base + place)
        for scheme, width in (("dark", 400), ("light", 1200)):
            page.emulate_media(color_scheme=scheme)
            page.set_viewport_size({"width": width, "height": 900})
            poor = page.evaluate(CONTRAST)
            assert poor == [], (place, scheme)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, place
    page.context.close()


def test_curves_of_one_figure_stand_together(new_page: NewPage, link: str) -> None:
    page = new_page()
    page.goto(link)
    page.goto(link.split("?")[0] + "run/rewarded?tab=curves")
    figure = page.locator("figure", has=page.get_by_role("heading", name="Groups of completions"))
    figure.locator("canvas").wait_for()
    assert "Bad sign" in figure.locator("figcaption").inner_text()
    legend = figure.locator(".u-legend").inner_text()
    assert all(name in legend for name in ("some right", "all wrong", "all right", "equal rewards"))
    page.context.close()


CONTRAST = r"""() => {
  const parse = (text) => text.match(/[\d.]+/g).map(Number);
  const light = ([r, g, b]) => {
    const part = (v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const behind = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const color = parse(getComputedStyle(e).backgroundColor);
      if (color.length === 3 || color[3] === 1) return color;
    }
    return [255, 255, 255];
  };
  const found = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const style = getComputedStyle(element);
    if (!walker.currentNode.textContent.trim() || !element.getClientRects().length) continue;
    if (element.closest('svg, script, style, option, :disabled')) continue;
    const a = light(parse(style.color)), b = light(behind(element));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    if (ratio < (large ? 3 : 4.5)) found.add(`${element.tagName}.${element.className} ${ratio.toFixed(2)}`);
  }
  return [...found];
}"""


def test_the_machine_that_a_recipe_is_called_after_is_ticked(new_page: NewPage, link: str) -> None:
    page = new_page()
    page.goto(link)
    page.goto(link.split("?")[0] + "plan?recipe=gemma-2b-v5e8")
    ticked = "() => [...document.querySelectorAll('[name=target]:checked')].map((box) => box.value)"
    assert page.evaluate(ticked) == ["v5e-8"]
    page.check("[name=target][value=h200]")
    page.select_option("#recipe", "gemma-2b-t4")
    assert page.evaluate(ticked) == ["v5e-8", "h200"], "what a person chose stays"
