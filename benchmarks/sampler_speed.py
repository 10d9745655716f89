"""Sampling completions: the engine, vLLM through the trainer, and vLLM alone, the same prompts of uneven lengths.

    python -m benchmarks.sampler_speed --vllm /path/to/vllm [--prompts 512] [--new-tokens 32] [--rounds 3]

SmolLM2-135M with adapters in float32 on a CPU. `vllm` is what a run with `sampler.name: vllm` does. `vllm_alone` sends
the same prompts with the same settings to the same server by plain HTTP and reads only the number of tokens.
`vllm_base` does so without adapters. The prefix cache is off, because every side asks the same prompts. The sides take
turns, in another order each round. No seeds are shared, so lengths differ: compared are the tokens per second over all
rounds, and in pairs per round. The log probabilities that vLLM reports are compared with the engine's for the same
tokens. Writes `benchmarks/results/sampler_speed.json`.
"""

import argparse
import json
import time
from collections.abc import Callable
from typing import Any
from urllib.request import Request, urlopen

import numpy as np

from tools.result_file import write_result
from workings.config.load import load_recipe
from workings.data.batches import make_batch
from workings.data.rows import Row
from workings.engines.base import EngineRequest
from workings.engines.registry import find_engine
from workings.inputs.resolve import resolve
from workings.rollouts.samplers.vllm import VllmSampler

LONGEST = 256
Ask = Callable[[list[list[int]]], tuple[int, list[Any]]]
"""Samples a completion of each prompt: the number of tokens, and the completions if the side reads them."""


def by_sampler(sampler: Any, state: Any, settings: dict[str, Any]) -> Ask:
    """A side that samples as a run does."""
    def ask(prompts: list[list[int]]) -> tuple[int, list[Any]]:
        completions = sampler.sample(state, prompts, seeds=[*range(len(prompts))], **settings)
        return sum(len(one.log_probs) for one in completions), completions
    return ask


def by_http(url: str, body: dict[str, Any]) -> Ask:
    """A side that asks a server and counts the tokens of its answer."""
    def ask(prompts: list[list[int]]) -> tuple[int, list[Any]]:
        request = Request(  # noqa: S310 - this machine
            f"{url}/v1/completions", data=json.dumps(body | {"prompt": prompts}).encode(),
            headers={"Content-Type": "application/json"})
        with urlopen(request) as reply:  # noqa: S310 - as above
            return int(json.load(reply)["usage"]["completion_tokens"]), []
    return ask


def measure(name: str, ask: Ask, prompts: list[list[int]]) -> tuple[dict[str, float], list[Any]]:
    """Seconds and tokens of one side in one round, and its completions."""
    begun = time.perf_counter()
    tokens, completions = ask(prompts)
    seconds = time.perf_counter() - begun
    print(f"{name}: {tokens} tokens in {seconds:.1f} s, {tokens / seconds:.1f} a second", flush=True)
    return {"tokens": tokens, "seconds": round(seconds, 2)}, completions


def rate(rounds: list[dict[str, float]]) -> float:
    """Tokens per second over all rounds."""
    return sum(one["tokens"] for one in rounds) / sum(one["seconds"] for one in rounds)


def ratio(rounds: dict[str, list[dict[str, float]]], one: str, other: str) -> dict[str, Any]:
    """How many times as fast one side is as another: over all rounds, and in each."""
    each = [round(rate([a]) / rate([b]), 3) for a, b in zip(rounds[one], rounds[other], strict=True)]
    return {"ratio": round(rate(rounds[one]) / rate(rounds[other]), 3), "each_round": each}


def largest_difference(engine: Any, state: Any, prompts: list[list[int]], completions: list[Any]) -> dict[str, float]:
    """Differences between a sampler's log probabilities and the engine's, in nats, over at most 16 completions."""
    differences = []
    for prompt, one in [*zip(prompts, completions, strict=True)][:16]:
        written = [*one.tokens, *([] if one.stop_token is None else [one.stop_token])]
        mask = np.array([0] * len(prompt) + [1] * len(written), np.uint8)
        row = Row("x", np.array([*prompt, *written], np.int32), mask, "")
        log_probs = engine.log_probs(state, make_batch([[row]], (1, 1), LONGEST, 0))
        start = len(prompt) - 1
        differences += np.abs(log_probs[0, 0, start:start + len(written)] - np.float32(one.log_probs)).tolist()
    return {"mean": float(np.mean(differences)), "largest": float(np.max(differences)), "tokens": len(differences)}


def main() -> None:
    """Measures the sides and writes the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vllm", default="vllm")
    parser.add_argument("--prompts", type=int, default=512)
    parser.add_argument("--new-tokens", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    loaded = load_recipe("smollm2-135m-grpo-cpu", [
        f"sampler={{name: vllm, command: '{given.vllm}', arguments: [--no-enable-prefix-caching]}}",
        f"data.max_length={LONGEST}"])
    resolved = resolve(loaded)
    weights = resolved.weights.directory
    engine = find_engine("torch").engine.open(EngineRequest.of(loaded.recipe, resolved.shape, weights=weights))
    state: Any = resolved.initial_state(engine, 17, trainable=True)
    items = resolved.data.prompts
    # Of uneven lengths: some questions are asked with one or two before them.
    prompts = [resolved.template.prompt_ids(" ".join(items[(number + each) % len(items)].prompt
                                                     for each in range(1 + number % 3)))
               for number in range(given.prompts)]
    settings = {"max_new_tokens": given.new_tokens, "stop_ids": [*resolved.template.stop_ids], "temperature": 1.0}
    server = VllmSampler(loaded.recipe, engine, weights=weights)
    server.load(state)
    plain = {"max_tokens": given.new_tokens, "temperature": 1.0, "stop_token_ids": settings["stop_ids"], "logprobs": 0,
             "return_token_ids": True}
    sides = {"engine": by_sampler(engine, state, settings), "vllm": by_sampler(server, state, settings),
             "vllm_alone": by_http(server.url, plain | {"model": server.tag["adapter"]}),
             "vllm_base": by_http(server.url, plain | {"model": str(weights)})}
    for ask in sides.values():
        ask(prompts[:16])  # starts and compiles
    rounds: dict[str, list[dict[str, float]]] = {name: [] for name in sides}
    completions: dict[str, list[Any]] = {}
    for number in range(given.rounds):
        names = [*sides][number % len(sides):] + [*sides][:number % len(sides)]
        for name in names:
            took, completions[name] = measure(name, sides[name], prompts)
            rounds[name].append(took)
    lengths = [len(prompt) for prompt in prompts]
    write_result(
        packages=["workings", "torch", "numpy"],
        words=f"--vllm VLLM --prompts {given.prompts} --new-tokens {given.new_tokens} --rounds {given.rounds}",
        values={"prompts": len(prompts), "prompt_tokens": {"least": min(lengths), "most": max(lengths)},
                "new_tokens": given.new_tokens, "vllm_version": server.tag["version"], "rounds": rounds,
                "tokens_per_second": {name: round(rate(rounds[name]), 1) for name in sides},
                "vllm_to_engine": ratio(rounds, "vllm", "engine"),
                "vllm_to_vllm_alone": ratio(rounds, "vllm", "vllm_alone"),
                "vllm_to_vllm_base": ratio(rounds, "vllm", "vllm_base"),
                "log_prob_difference": {name: largest_difference(engine, state, prompts, completions[name])
                                        for name in ("engine", "vllm")}})


if __name__ == "__main__":
    main()
