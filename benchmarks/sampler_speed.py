"""Drawing completions: the engine itself next to a server of vLLM, the same prompts of uneven lengths, in float32.

    python -m benchmarks.sampler_speed --vllm /path/to/vllm [--prompts 512] [--new-tokens 32] [--url http://…]

SmolLM2-135M on a CPU, through the product's own two samplers, in one process after the other. No seeds are shared, so
lengths differ; tokens per second and per processor second are compared. The log probabilities that vLLM reports are
compared with the engine's for the same tokens. Writes `benchmarks/results/sampler_speed.json`.
"""

import argparse
import time
from typing import Any

import numpy as np

from tools.result_file import ROOT, load_average, write_result
from workings.config.load import load_recipe
from workings.data.batches import make_batch
from workings.data.rows import Row
from workings.engines.base import EngineRequest
from workings.engines.registry import find_engine
from workings.inputs.resolve import resolve
from workings.rollouts.vllm import VllmSampler

RESULT = ROOT / "benchmarks" / "results" / "sampler_speed.json"
LONGEST = 256


def measure(name: str, sampler: Any, state: Any, prompts: list[list[int]], new_tokens: int,
            stop_ids: list[int]) -> tuple[dict[str, float], list[Any]]:
    """Seconds and tokens of one sampler, after a first call that starts and compiles what it needs."""
    ask = {"max_new_tokens": new_tokens, "stop_ids": stop_ids, "temperature": 1.0}
    sampler.sample(state, prompts[:2], seeds=[0, 1], **ask)
    begun = time.perf_counter()
    drawn = sampler.sample(state, prompts, seeds=[*range(len(prompts))], **ask)
    seconds = time.perf_counter() - begun
    tokens = sum(len(one.log_probs) for one in drawn)
    print(f"{name}: {tokens} tokens in {seconds:.1f} s, {tokens / seconds:.1f} a second")
    return {"tokens": tokens, "seconds": round(seconds, 1), "tokens_per_second": round(tokens / seconds, 2)}, drawn


def largest_difference(engine: Any, state: Any, prompts: list[list[int]], drawn: list[Any]) -> dict[str, float]:
    """Differences between a sampler's log probabilities and the engine's, in nats, over at most 16 completions."""
    differences = []
    for prompt, one in [*zip(prompts, drawn, strict=True)][:16]:
        written = [*one.tokens, *([] if one.stop_token is None else [one.stop_token])]
        mask = np.array([0] * len(prompt) + [1] * len(written), np.uint8)
        row = Row("x", np.array([*prompt, *written], np.int32), mask, "")
        log_probs = engine.log_probs(state, make_batch([[row]], (1, 1), LONGEST, 0))
        start = len(prompt) - 1
        differences += np.abs(log_probs[0, 0, start:start + len(written)] - np.float32(one.log_probs)).tolist()
    return {"mean": float(np.mean(differences)), "largest": float(np.max(differences)), "tokens": len(differences)}


def main() -> None:
    """Measures both samplers and writes the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vllm", default="vllm")
    parser.add_argument("--url", default="")
    parser.add_argument("--prompts", type=int, default=512)
    parser.add_argument("--new-tokens", type=int, default=32)
    given = parser.parse_args()
    load = load_average()
    loaded = load_recipe("smollm2-135m-grpo-cpu", [
        f"sampler={{name: vllm, command: '{given.vllm}', url: '{given.url}'}}", f"data.max_length={LONGEST}"])
    resolved = resolve(loaded)
    engine = find_engine("torch").engine.open(EngineRequest.of(loaded.recipe, resolved.shape,
                                                               weights=resolved.weights.directory))
    state = resolved.initial_state(engine, 17, trainable=True)
    items = resolved.data.prompts
    # Of uneven lengths: some questions are asked with one before them.
    prompts = [resolved.template.prompt_ids(" ".join(items[(number + each) % len(items)].prompt
                                                     for each in range(1 + number % 3)))
               for number in range(given.prompts)]
    stop_ids = [*resolved.template.stop_ids]
    ours, drawn = measure("engine", engine, state, prompts, given.new_tokens, stop_ids)
    same = largest_difference(engine, state, prompts, drawn)
    server = VllmSampler(loaded.recipe, engine, shape=resolved.shape, weights=resolved.weights.directory)
    theirs, answers = measure("vLLM", server, state, prompts, given.new_tokens, stop_ids)
    lengths = [len(prompt) for prompt in prompts]
    command = f"python -m benchmarks.sampler_speed --prompts {given.prompts} --new-tokens {given.new_tokens}"
    write_result(RESULT, what="drawing completions of the same prompts by the engine and by vLLM on a CPU",
                 command=command, packages=["workings", "torch", "numpy"], load_before=load, values={
                     "prompts": len(prompts), "prompt_tokens": {"least": min(lengths), "most": max(lengths)},
                     "new_tokens": given.new_tokens, "engine": ours,
                     "vllm": theirs | {"version": server.tag["version"]},
                     "vllm_to_engine": round(theirs["tokens_per_second"] / ours["tokens_per_second"], 2),
                     "log_prob_difference": {
                         "engine": same,
                         "vllm": largest_difference(engine, state, prompts, answers)}})


if __name__ == "__main__":
    main()
