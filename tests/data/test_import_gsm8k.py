"""All of GSM8K, read again by another hand: a regular expression over the raw text."""

import json
import re
from pathlib import Path

import pytest

from workings.data.importing.run import ImportRequest, import_records
from workings.data.importing.sources import open_file
from workings.data.traces import read_traces


@pytest.mark.slow
@pytest.mark.parametrize(("split", "count"), [("train", 7473), ("test", 1319)])
def test_every_problem_arrives_with_its_steps_and_answer(shared: Path, tmp_path: Path, split: str, count: int) -> None:
    path = shared / "data" / "gsm8k" / f"{split}.jsonl"
    if not path.is_file():
        pytest.skip("no GSM8K in ../shared/data/gsm8k")
    out = tmp_path / "traces.jsonl"
    result = import_records(open_file(path), out, ImportRequest(format="gsm8k", labels={"licence": "MIT"}))
    assert (result.read, result.written, result.rejected) == (count, count, 0)
    traces = read_traces(out)
    raw = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for trace, record in zip(traces, raw, strict=True):
        assert trace.prompt == record["question"]
        assert trace.answer == re.search(r"#### (.+)$", record["answer"]).group(1).replace(",", "").strip()
        body = re.sub(r"\n#### .+$", "", record["answer"])
        expected = [re.sub(r"<<.*?>>", "", line).rstrip() for line in body.split("\n") if line.strip()]
        assert list(trace.steps) == expected
        assert len(trace.steps) >= 1
        annotations = re.findall(r"<<(.*?)>>", body)
        assert [a for step in trace.metadata.get("calculations", []) for a in step] == annotations
    assert all(re.fullmatch(r"-?\d+(\.\d+)?", trace.answer) for trace in traces)
