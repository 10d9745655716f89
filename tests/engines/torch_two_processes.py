"""What each of two processes does that `torchrun` started; the first prints one JSON object.

Usage: python -m torch.distributed.run --standalone --nproc-per-node 2 -m tests.engines.torch_two_processes CASE LOAD
SAVE. Resumes from the checkpoint in LOAD for three steps, evaluates, generates, saves and exports to SAVE. With a case
of `TRACED` alone: `live_bytes`; without arguments: `rewarded_adapters` and `drawn`.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode

from tests.engines.tiny import random_batch, request, rewarded_adapters, tiny_shape
from workings.config.method import LoraConfig, QloraConfig
from workings.config.training import AdafactorConfig, AdamWConfig, MemoryConfig, MeshConfig, PrecisionConfig
from workings.engines.torch import decode, generate
from workings.engines.torch.engine import TorchEngine
from workings.engines.torch.step import State
from workings.engines.torch.trace.allocator import PAGE, live_peak
from workings.engines.torch.trace.inspect import follow
from workings.engines.torch.trace.programs import step
from workings.models.batch import BatchShape
from workings.objectives.policy_gradient import PolicyGradient

CASES = {
    "adamw": {"optimizer": AdamWConfig(name="adamw", clip_norm=1.0), "shape": tiny_shape("gemma3", layers=3)},
    "mixed": {"optimizer": AdafactorConfig(name="adafactor", clip_norm=1.0), "shape": tiny_shape("gemma2"),
              "precision": PrecisionConfig(parameters="bf16", compute="fp32", rounding="master_fp32")},
}
CASES["lora"] = {"method": LoraConfig(name="lora", rank=3), "optimizer": AdamWConfig(name="adamw", clip_norm=1.0),
                 "shape": tiny_shape("gemma3", layers=2), "memory": MemoryConfig(remat="layer")}
CASES["lora bf16"] = {"method": LoraConfig(name="lora", rank=4), "shape": tiny_shape("llama"),
                      "optimizer": AdafactorConfig(name="adafactor"),
                      "precision": PrecisionConfig(parameters="bf16", compute="fp32")}
# In four processes: two copies, each split over two.
CASES["copies"] = {"optimizer": AdafactorConfig(name="adafactor", clip_norm=1.0, weight_decay=0.1),
                   "shape": tiny_shape("llama", vocab=63)}
# In two processes: two whole copies.
CASES["whole copies"] = {"method": LoraConfig(name="lora", rank=3), "shape": tiny_shape("gemma3", layers=2),
                         "optimizer": AdafactorConfig(name="adafactor", clip_norm=1.0)}
# Every process has all matrices in four bits; the adapters are split.
CASES["qlora"] = {"method": QloraConfig(name="qlora", rank=3), "memory": MemoryConfig(remat="layer"),
                  "shape": tiny_shape("gemma2", width=64, mlp_width=64, head_dim=16)}
# Shared keys, and a table of per-layer embeddings that every process has whole.
CASES["gemma4"] = {"shape": tiny_shape("gemma4"), "optimizer": AdafactorConfig(name="adafactor", clip_norm=1.0),
                   "memory": MemoryConfig(remat="layer")}
CASES["gemma4 lora"] = {"shape": tiny_shape("gemma4"), "method": LoraConfig(name="lora", rank=3),
                        "memory": MemoryConfig(per_layer_embeddings="host")}
# Filters of three axes and vectors of one number a head, next to layers that attend.
CASES["qwen3_5"] = {"shape": tiny_shape("qwen3_5"), "memory": MemoryConfig(remat="layer"),
                    "optimizer": AdafactorConfig(name="adafactor", clip_norm=1.0, weight_decay=0.1)}
# What cards compute by kernels, here by their plain versions.
CASES["kernels"] = {"shape": tiny_shape("gemma3"), "optimizer": AdamWConfig(name="adamw", clip_norm=1.0),
                    "precision": PrecisionConfig(compute="bf16")}
PROMPTS = [[1, 2, 3], [4], [5, 6, 7, 8, 9]]
TRACED_SHAPE, TRACED_SIZE = tiny_shape("gemma2", vocab=3000, layers=4, width=128, mlp_width=384,
                                       head_dim=32), BatchShape(1, 4, 64)
TRACED = {name: request(TRACED_SHAPE, mesh=MeshConfig(fsdp=2), memory=MemoryConfig(remat="layer", loss_chunk=32),
                        **changes) for name, changes in {
    "all weights": {"optimizer": AdafactorConfig(name="adafactor"),
                    "precision": PrecisionConfig(parameters="bf16", compute="fp32", rounding="stochastic")},
    "adapters": {"method": LoraConfig(name="lora", rank=8), "optimizer": AdamWConfig(name="adamw")}}.items()}


def engine(case: str, fsdp: int, replicate: int = 1) -> TorchEngine:
    """A vocabulary of 61 or 63 and vectors of 8 do not come out even on two processes, some tensors do."""
    opened = TorchEngine.open(request(mesh=MeshConfig(fsdp=fsdp, replicate=replicate), **CASES[case]))
    if case == "kernels":
        opened.spec = replace(opened.spec, card_kernels=True)
    return opened


def curve(opened: TorchEngine, state: State, steps: int, first: int = 0) -> tuple[State, list[list[float]]]:
    """Losses, gradient norms and shares of changed weights."""
    found = []
    for i in range(first, first + steps):
        batch = random_batch(opened.spec.shape, micro=2, seed=i)
        batch.loss_mask[0, 2:] = 0.0  # in one micro batch the second process has nothing to learn
        state, result = opened.step(state, batch, 1e-2)
        found.append([result.loss, result.grad_norm, result.share_of_weights_changed])
    return state, found


def report(opened: TorchEngine, state: State) -> dict[str, object]:
    """What the model is after the steps."""
    held_out = opened.evaluate(state, random_batch(opened.spec.shape, seed=99))
    answers = opened.generate(state, PROMPTS, max_new_tokens=6, stop_ids=[])
    return {"held_out": held_out.loss_sum, "tokens": [answer.tokens for answer in answers]}


def go_on(case: str, load: Path, save: Path) -> dict[str, object]:
    """One case in this process, which has half of everything."""
    mesh = {"copies": {"replicate": 2, "fsdp": 2}, "whole copies": {"replicate": 2, "fsdp": 1}}.get(case, {"fsdp": 2})
    opened = engine(case, **mesh)
    assert opened.describe().mesh == mesh | {"tp": 1}
    state, found = curve(opened, opened.restore(load), 3, 3)
    # Frozen ones too, but for the one that is not split.
    parameters = [x for x in state.model.parameters() if isinstance(x, DTensor)]
    held = sum(x.to_local().numel() for x in parameters)
    whole = sum(x.numel() for x in parameters) or 1
    # Evaluated and saved at the same step: what the evaluation gathered must not be held fast by the checkpoint.
    values = report(opened, state)
    opened.save(state, save)
    opened.save_shards(state, save / "shards")
    opened.export(state, save / "exported")
    _, after = curve(opened, state, 1, 6)
    dist.barrier()  # the other process's shards are there
    _, resumed = curve(opened, opened.restore(save / "shards"), 1, 6)
    return {"curve": found, "after": after, "resumed": resumed, "held": held / whole} | values


@contextmanager
def rows_of_passes() -> Iterator[list[int]]:
    """Rows of each forward pass that this process makes for a completion."""
    rows: list[int] = []
    inner = decode.hidden_states

    def counted(model: Any, tokens: Any, *others: Any) -> Any:
        rows.append(len(tokens))
        return inner(model, tokens, *others)

    decode.hidden_states = generate.hidden_states = counted
    try:
        yield rows
    finally:
        decode.hidden_states = generate.hidden_states = inner


GROUPS = {"groups": [[5, 9, 33, 2, 60, 7, 7]] * 4 + [[8, 21]] * 4 + [[3]] * 4, "one": [[7, 7, 1]],
          "three": [[4, 1], [6, 12, 40], [2]], "same": [[11, 5]] * 6}
STOPS = [*range(0, 61, 6)]


def drawn(opened: TorchEngine) -> dict[str, Any]:
    """Completions of groups of prompts, which end early, and the rows of this process's passes by group."""
    state, found = opened.init(0), {}
    for name, prompts in GROUPS.items():
        with rows_of_passes() as rows:
            sampled = opened.sample(state, prompts, max_new_tokens=24, stop_ids=STOPS, temperature=1.5,
                                    seeds=range(len(prompts)))
        likeliest = opened.generate(state, prompts, max_new_tokens=6, stop_ids=STOPS)
        found[name] = {"rows": rows, "completions": [
            [each.tokens, each.stop_token, each.finish_reason, each.log_probs] for each in (*sampled, *likeliest)]}
    return found


class GatherCounter(TorchDispatchMode):
    """Counts the times that FSDP gathers a layer."""

    count = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += function is torch.ops.c10d._allgather_base_.default
        return function(*args, **(kwargs or {}))


def gathered(opened: TorchEngine, device_bytes: int) -> dict[str, Any]:
    """Completions on devices of this memory, and how often weights are gathered for them; a step follows."""
    opened.spec = replace(opened.spec, device_bytes=device_bytes)
    state = opened.init(0)
    with GatherCounter() as gathers:
        answers = opened.generate(state, PROMPTS, max_new_tokens=6, stop_ids=[])
    _, after = curve(opened, state, 1)
    return {"tokens": [answer.tokens for answer in answers], "gathers": gathers.count, "after": after}


def live_bytes(case: str) -> int:
    """What a step takes in this process, followed storage by storage."""
    opened = TorchEngine.open(TRACED[case])
    state = opened.init(0)
    return live_peak(follow(state, lambda: step(opened.spec, state, TRACED_SIZE)).events, PAGE).size


def from_all(values: Any) -> list[Any]:
    """What each process has."""
    each: list[Any] = [None, None]
    dist.all_gather_object(each, values)
    return each


def main(case: str = "", load: str = "", save: str = "") -> None:
    torch.set_num_threads(1)
    values: dict[str, Any]
    if case in TRACED:
        values = {"peak": live_bytes(case)}
    elif case:
        values = go_on(case, Path(load), Path(save))
    else:
        opened = TorchEngine.open(request(mesh=MeshConfig(fsdp=2), objective=PolicyGradient(), **CASES["lora"]))
        values = rewarded_adapters(opened) | {"drawn": from_all(drawn(opened))}
        values["gathered"] = {name: gathered(engine("adamw", 2), device_bytes)
                              for name, device_bytes in (("small", 0), ("large", 1 << 30))}
    if dist.get_rank() == 0:
        sys.stdout.write(json.dumps(values) + "\n")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
