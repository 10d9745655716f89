"""llama.cpp writes the greedy tokens of the PyTorch engine, from folders that its own converter made of our exports.

    python -m proof.llama_cpp LLAMA_CPP [FAMILY ...]

LLAMA_CPP is a folder of llama.cpp's source, with its converter and its vocabularies (the source package of
`llama-cpp-python` has it in ``vendor/llama.cpp``). The packages `gguf` and `xllamacpp` (llama.cpp's own server in a
Python module) have to be importable. Small models are trained for a few random batches, so that no norm and no bias is
what it began as, exported in fp32 with GPT-2's vocabulary, converted, and asked to go on with token ids. Writes
`proof/llama_cpp.json`. Exits with 1 where a family's tokens differ or its folder is not converted, with 3 without
these.
"""

import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers

from tests.engines.tiny import random_batch, request
from tools.result_file import earlier, measured, write_result
from tools.run_scripts import NOT_MEASURED
from workings.config.model import ShapeConfig
from workings.engines.torch.engine import TorchEngine
from workings.models.batch import Batch
from workings.models.chat import ChatTemplate
from workings.models.registry import find_family
from workings.models.shapes import shape_from_config
from workings.models.tokenizer import Tokenizer
from workings.publish.export import write_tokenizer

RESULT = Path(__file__).parent / "llama_cpp.json"
FAMILIES = ("llama", "qwen3", "smollm3", "gpt2", "olmo3", "qwen3_5")
END = "<|endoftext|>"
PACKAGES = ("torch", "transformers", "gguf", "xllamacpp")
PROMPTS, LENGTH, NEW_TOKENS, STEPS, RATE = 4, 24, 24, 3, 3e-3


def make_tokenizer(source: Path) -> Tokenizer:
    """GPT-2's tokenizer, from llama.cpp's file of its vocabulary."""
    from gguf import GGUFReader

    fields = GGUFReader(source / "models" / "ggml-vocab-gpt-2.gguf").fields

    def texts(name: str) -> list[str]:
        found = fields[f"tokenizer.ggml.{name}"]
        return [bytes(found.parts[at]).decode() for at in found.data]

    tokens = texts("tokens")
    made = tokenizers.Tokenizer(tokenizers.models.BPE(
        {text: at for at, text in enumerate(tokens[:tokens.index(END)])},
        [tuple(pair.split(" ")) for pair in texts("merges")]))
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    made.add_special_tokens([END])
    return Tokenizer(made, {"eos_token": END, "bos_token": END, "pad_token": END})


def answers(file: Path, prompts: list[list[int]]) -> list[list[tuple[int, float]]]:
    """Greedy tokens of llama.cpp's server, each with its log probability."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path, params.n_ctx, params.n_parallel, params.warmup = str(file), 256, 1, False
    # Of itself it keeps keys and values in fp16 and takes an attention that rounds.
    params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    server, found = xllamacpp.Server(params), []
    for prompt in prompts:
        said = server.handle_completions({
            "prompt": prompt, "n_predict": NEW_TOKENS, "max_tokens": NEW_TOKENS, "temperature": 0.0, "top_k": 1,
            "ignore_eos": True, "return_tokens": True, "cache_prompt": False, "logprobs": 1})
        found.append([(each["id"], each["logprob"]) for each in said["choices"][0]["logprobs"]["content"]])
    return found


def log_probs(engine: TorchEngine, state: Any, tokens: list[int]) -> np.ndarray:
    """``[V]`` log probabilities of the next token."""
    row = np.array(tokens, np.int32)[None, None]
    logits = engine.logits(state, Batch(
        tokens=row, targets=row, loss_mask=np.ones(row.shape, np.float32), segment_ids=np.ones_like(row),
        positions=np.arange(row.shape[2], dtype=np.int32)[None, None]))[0, -1].astype(np.float64)
    return np.asarray(logits - logits.max() - np.log(np.exp(logits - logits.max()).sum()))


def compared(family: str, source: Path, folder: Path) -> dict[str, Any]:
    """One row: whether the folder was converted, and how many greedy tokens are ours."""
    grouped = find_family(family).grouped_heads
    tokenizer = make_tokenizer(source)
    # The converter writes the sections of rotation of Qwen 3.5's published heads, which smaller ones have no room for.
    config = ShapeConfig(family=family, layers=4, width=64, mlp_width=256, heads=4, kv_heads=2 if grouped else 4,
                         head_dim=256 if family == "qwen3_5" else 16, context=256)
    # llama.cpp takes OLMo 3 for what is published, whose head is a matrix of its own.
    shape = replace(shape_from_config(config, tokenizer.vocab_size), tied_embeddings=family != "olmo3")
    engine = TorchEngine.open(request(shape))
    state = engine.init(0)
    for step in range(STEPS):
        state, _ = engine.step(state, random_batch(engine.spec.shape, seed=step), RATE)
    out = folder / "export"
    out.mkdir()
    engine.export(state, out)
    write_tokenizer(tokenizer, ChatTemplate.for_config("plain", tokenizer), out)
    file = folder / "model.gguf"
    convert = [sys.executable, "convert_hf_to_gguf.py", str(out), "--outfile", str(file), "--outtype", "f32",
               # The text part alone has no head that guesses further tokens, and the converter wants to be told.
               *(["--no-mtp"] if family == "qwen3_5" else [])]
    done = subprocess.run(convert, cwd=source, text=True, capture_output=True, check=False,
                          env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})
    if done.returncode:
        return {"converted": False, "said": done.stderr.strip().splitlines()[-1], "equal": 0, "tokens": 0}
    draw = np.random.default_rng(1)
    prompts = [draw.integers(0, 50000, LENGTH).tolist() for _ in range(PROMPTS)]
    ours = [list(each.tokens) for each in engine.generate(state, prompts, max_new_tokens=NEW_TOKENS, stop_ids=[])]
    theirs = answers(file, prompts)
    equal = [int(np.cumprod([a == b for a, (b, _) in zip(one, other, strict=True)]).sum())
             for one, other in zip(ours, theirs, strict=True)]
    first = [log_probs(engine, state, prompt)[other[0][0]] - other[0][1]
             for prompt, other in zip(prompts, theirs, strict=True)]
    # By how much our first other token is above theirs: of two that are nearly as good either is greedy.
    margins = [(found := log_probs(engine, state, prompt + one[:at]))[one[at]] - found[other[at][0]]
               for prompt, one, other, at in zip(prompts, ours, theirs, equal, strict=True) if at < NEW_TOKENS]
    return {"converted": True, "equal": sum(equal), "tokens": sum(map(len, ours)),
            "different_tokens": len({token for one in ours for token in one}),
            "max_log_prob_difference": float(np.abs(first).max()), "margins": [float(each) for each in margins]}


def main(arguments: list[str]) -> int:
    """Compare, write, and say whether all are equal."""
    if not arguments or not all(map(find_spec, ("gguf", "xllamacpp"))):
        print("not measured: give a folder of llama.cpp's source, and install gguf and xllamacpp")
        return NOT_MEASURED
    source, *asked = arguments
    for family in asked or FAMILIES:
        with tempfile.TemporaryDirectory(prefix="workings-llama-cpp-") as folder:
            found = compared(family, Path(source).resolve(), Path(folder)) | {"compared": measured()}
        print(family, found, flush=True)
        values = earlier(RESULT) | {family: found}
        write_result(RESULT, what="Greedy tokens of llama.cpp that are the PyTorch engine's, from exports in fp32.",
                     command="python -m proof.llama_cpp LLAMA_CPP", values=values, packages=PACKAGES)
    values = earlier(RESULT)
    return 0 if all(row["converted"] and row["equal"] == row["tokens"] for row in values.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
