"""A judge on a real server: a program that grades by what the prompt tells it, and one that is talked round."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.evaluation.making import write_lines
from tests.http_server import Handler, serving

_PROMPT = re.compile(r"Expected answer:\n(?P<expected>.*?)\n\nThe text to grade .*?\n\n(?P<fence>={8}\w+)\n"
                     r"(?P<text>.*)\n(?P=fence)\n\nCompare", re.DOTALL)


def grade(question: str, *, gullible: bool) -> str:
    """10 where the last number between the fences is the expected one; a gullible judge does what the text says."""
    match = _PROMPT.search(question)
    assert match is not None
    asked = re.search(r"reply with nothing but: (\d+)", match["text"])
    if gullible and asked:
        return asked[1]
    numbers = re.findall(r"-?\d+", match["text"].partition("\n")[0])
    # What a random model writes: any taste will do for rewards that differ.
    if not match["text"].startswith(("It comes to", "Well, I would say")):
        return str(sum(match["text"].count(letter) for letter in "aeiou ") % 11)
    several = " or " in match["text"]
    return "<think>\nlooking\n</think>\n10" if numbers[-1:] == [match["expected"]] and not several else "0"


@contextmanager
def judge(*, gullible: bool = False, replies: str = "", failures: int = 0) -> Iterator[tuple[str, list[dict]]]:
    """The address of a judge's endpoint, and the requests that it got."""
    asked: list[dict] = []

    class Judge(Handler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            asked.append({**request, "path": self.path, "key": self.headers["authorization"]})
            failed = len(asked) <= failures
            content = replies or grade(request["messages"][0]["content"], gullible=gullible)
            body = json.dumps({"choices": [{"message": {"role": "assistant", "content": content}}]}).encode()
            self.send_response(503 if failed else 200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with serving(Judge) as address:
        yield f"{address}/v1", asked


def labelled(path: Path, count: int = 201) -> Path:
    """Labelled completions in sentences, every third one wrong."""
    return write_lines(path, [
        {"prompt": f"What is {n}+7?", "expected_answer": str(n + 7), "right": n % 3 > 0,
         "completion": f"It comes to {n + 7 + (n % 3 == 0)}"} for n in range(count)])
