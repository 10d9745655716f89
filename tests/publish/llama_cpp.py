"""Small models that were trained, as GGUF files, and what llama.cpp writes from them next to the PyTorch engine."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tests.engines.tiny import request
from workings.config.method import FullConfig, LoraConfig
from workings.config.model import ShapeConfig
from workings.config.training import PrecisionConfig
from workings.data.generators import addition
from workings.engines.torch.engine import TorchEngine
from workings.engines.weight_files import read_shape
from workings.models.batch import Batch
from workings.models.chat import ChatTemplate
from workings.models.registry import family_of, find_family
from workings.models.shape import ModelShape
from workings.models.shapes import shape_from_config
from workings.models.stop_tokens import StopTokens
from workings.models.tokenizer_training import train_tokenizer
from workings.publish.export import write_tokenizer
from workings.publish.gguf_file import write_gguf

PROMPTS, LENGTH, NEW_TOKENS = 4, 24, 24
STEPS, RATE = 60, 1e-2
TEXT = 262
"""First id above control tokens and bytes, in tokenizers that are trained here."""
BF16 = PrecisionConfig(parameters="bf16")
"""What a BF16 file holds, computed in float32."""


def small_shape(family: str, vocab: int) -> ModelShape:
    """A model with every feature of its family, in sizes that llama.cpp computes."""
    config = ShapeConfig(family=family, layers={"gemma4": 6}.get(family, 4), width=64, mlp_width=128, heads=4,
                         kv_heads=2, head_dim=32 if family == "qwen3_5" else 16, context=128)
    shape = shape_from_config(config, vocab)
    if shape.sliding_pattern:
        # Windows are shorter than a prompt with its answer.
        shape = replace(shape, sliding_window=16, sliding_pattern=2 if family == "gemma4" else shape.sliding_pattern)
    if family == "gemma4":
        shape = replace(shape, global_head_dim=32, per_layer_width=32, shared_kv_layers=2, shared_mlp_width=256)
    if family == "olmo3":
        shape = replace(shape, rope_yarn=(4.0, 32, 32.0, 1.0, 1.2))
    if family == "llama":
        shape = replace(shape, rope_llama3=(8.0, 1.0, 4.0, 32))
    return shape


def rows(vocab: int, seed: int = 7) -> np.ndarray:
    """``[PROMPTS, LENGTH + NEW_TOKENS]`` ids of tokens; those of the default seed are learned by heart."""
    return np.random.default_rng(seed).integers(TEXT, vocab, (PROMPTS, LENGTH + NEW_TOKENS)).astype(np.int32)


def batch(tokens: np.ndarray) -> Batch:
    """Every next token of the rows is learned."""
    real = np.ones((1, *tokens.shape), np.int32)
    weights = real.astype(np.float32)
    weights[..., -1] = 0
    return Batch(tokens=tokens[None], targets=np.roll(tokens, -1, -1)[None], loss_mask=weights, segment_ids=real,
                 positions=np.broadcast_to(np.arange(tokens.shape[1], dtype=np.int32), real.shape))


def trained_folder(family: str, method: str, folder: Path) -> tuple[Path, ChatTemplate, float]:
    """A model's exported folder, the template that it was trained with, and its last loss."""
    tokenizer = train_tokenizer([trace.prompt for trace in addition.make(60, 1, seed=1)[0]], 384)
    shape = small_shape(family, tokenizer.vocab_size)
    matrices = tuple({name.rpartition(".")[2]: None for name in family_of(shape).projections})
    adapters = (FullConfig(name="full") if method == "full"
                else LoraConfig(name="lora", rank=16, alpha=32, target_modules=matrices))
    engine = TorchEngine.open(request(shape, method=adapters))
    state = engine.init(0)
    for _ in range(STEPS):
        state, result = engine.step(state, batch(rows(shape.vocab_size)), RATE)
    out = folder / "export"
    out.mkdir()
    engine.export(state, out)
    template = ChatTemplate.for_config("gemma", tokenizer)
    write_tokenizer(template, StopTokens.of(template, None), out)
    return out, template, float(result.loss)


def our_tokens(folder: Path, prompts: list[list[int]]) -> list[list[int]]:
    """Greedy tokens of the PyTorch engine from a folder, in BF16."""
    engine = TorchEngine.open(request(read_shape(folder), precision=BF16, weights=folder))
    state = engine.load(folder, trainable=False)
    return [list(each.tokens) for each in engine.generate(state, prompts, max_new_tokens=NEW_TOKENS, stop_ids=[])]


@contextmanager
def llama_cpp(file: Path) -> Iterator[Any]:
    """llama.cpp's server with a model, in this process."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path, params.n_ctx, params.n_parallel, params.warmup = str(file), 512, 1, False
    # Otherwise keys and values are in fp16.
    params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    params.verbosity, params.cpuparams.n_threads = 3, 1
    yield xllamacpp.Server(params)


def their_answers(file: Path, prompts: list[list[int]], *, bytes_too: bool = True) -> list[list[tuple[int, float]]]:
    """Greedy tokens of llama.cpp with their log probabilities; without ``bytes_too`` none below `TEXT`."""
    # llama.cpp leaves tokens out of its list that are no whole character.
    never = [] if bytes_too else [[number, False] for number in range(TEXT)]
    with llama_cpp(file) as server:
        said = [server.handle_completions({
            "prompt": prompt, "n_predict": NEW_TOKENS, "max_tokens": NEW_TOKENS, "temperature": 0.0, "top_k": 1,
            "ignore_eos": True, "cache_prompt": False, "logprobs": 1, "logit_bias": never}) for prompt in prompts]
    return [[(token["id"], token["logprob"]) for token in each["choices"][0]["logprobs"]["content"]] for each in said]


def their_tokens(file: Path, prompts: list[list[int]]) -> list[list[int]]:
    """Greedy tokens of llama.cpp."""
    return [[token for token, _ in each] for each in their_answers(file, prompts)]


def log_prob_difference(folder: Path, file: Path, prompts: list[list[int]]) -> float:
    """How far apart log probabilities of llama.cpp's tokens are, at most, in llama.cpp and in the PyTorch engine."""
    engine = TorchEngine.open(request(read_shape(folder), weights=folder))
    state, worst = engine.load(folder, trainable=False), 0.0
    for prompt, answer in zip(prompts, their_answers(file, prompts, bytes_too=False), strict=True):
        row = batch(np.array([prompt + [token for token, _ in answer]], np.int32))
        logits = engine.logits(state, row)[0].astype(np.float64)[len(prompt) - 1:-1]
        log_probs = logits - np.log(np.exp(logits - logits.max(-1, keepdims=True)).sum(-1, keepdims=True)) - logits.max(
            -1, keepdims=True)
        ours = [log_probs[at, token] for at, (token, _) in enumerate(answer)]
        worst = max(worst, float(np.abs(np.array(ours) - [theirs for _, theirs in answer]).max()))
    return worst


def equal_tokens(ours: list[list[int]], theirs: list[list[int]]) -> int:
    """Tokens that are equal, counted in each answer up to the first that is not."""
    return sum(int(np.cumprod([a == b for a, b in zip(one, other, strict=True)]).sum())
               for one, other in zip(ours, theirs, strict=True))


def compared(family: str, method: str, folder: Path) -> dict[str, Any]:
    """Equal greedy tokens of a trained small model, from each kind of file, and log probabilities from one in F32."""
    exported, template, loss = trained_folder(family, method, folder)
    known = rows(template.tokenizer.vocab_size)
    prompts = known[:, :LENGTH].tolist()
    ours = our_tokens(exported, prompts)
    found: dict[str, Any] = {"tokens": PROMPTS * NEW_TOKENS, "loss": round(loss, 4),
                             "learned": equal_tokens(ours, known[:, LENGTH:].tolist())}
    for kind in ("bf16", "q8_0"):
        file = folder / f"{kind}.gguf"
        write_gguf(exported, file, kind, template, StopTokens.of(template, None), family)
        found[kind] = equal_tokens(ours, their_tokens(file, prompts))
    # After rows that were not learned no token is sure, so that a wrong setting shows.
    write_gguf(exported, folder / "f32.gguf", "f32", template, StopTokens.of(template, None), family)
    unknown = rows(template.tokenizer.vocab_size, seed=8)[:, :LENGTH].tolist()
    found["log_prob_difference"] = log_prob_difference(exported, folder / "f32.gguf", unknown)
    # llama.cpp looks GELU up in a table of float16.
    found["log_prob_limit"] = 1e-4 if find_family(family).switches.get("activation") == "silu" else 1e-2
    return found
