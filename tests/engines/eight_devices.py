"""Child process of the sharding tests: eight simulated devices.

Prints one JSON object. Usage: python -m tests.engines.eight_devices CASE DIR
"""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from tests.engines.tiny import random_batch, request, tiny_shape, with_signals, with_top_tokens
from workings.config.method import LoraConfig, QloraConfig
from workings.config.training import AdafactorConfig, AdamWConfig, MemoryConfig, MeshConfig
from workings.engines import prefill
from workings.engines.base import GenerationShape
from workings.engines.jax import checkpoint, embedding, feed_forward
from workings.engines.jax.aot_compile import lower_generation
from workings.engines.jax.engine import JaxEngine
from workings.engines.jax.generate import Generator
from workings.models.batch import Batch
from workings.objectives.policy_gradient import PolicyGradient
from workings.objectives.top_tokens import TopTokens

feed_forward.CHUNK = 4  # several chunks of the few positions that a device has here
MESHES = {"1": MeshConfig(fsdp=1), "8": MeshConfig(fsdp=8), "4x2": MeshConfig(fsdp=4, tp=2), "2": MeshConfig(fsdp=2),
          "4": MeshConfig(fsdp=4), "2x4x1": MeshConfig(replicate=2, fsdp=4),
          "2x2x2": MeshConfig(replicate=2, fsdp=2, tp=2), "8x1x1": MeshConfig(replicate=8, fsdp=1)}


METHODS = {"lora": LoraConfig(name="lora", rank=4), "qlora": QloraConfig(name="qlora", rank=4),
           "dropout": LoraConfig(name="lora", rank=4, dropout=0.2)}
WIDE = {"width": 128, "mlp_width": 256, "head_dim": 32, "kv_heads": 4}
"""Every matrix is whole blocks of 64 on every device."""


def engine(mesh: str, family: str = "gemma2", *, vocab: int = 64, layers: int = 3, optimizer: str = "adamw",
           chunk: int = 8, wide: bool = False, **changes: Any) -> JaxEngine:
    """Three layers, so that the scan is a real loop."""
    rule = AdamWConfig(name="adamw", clip_norm=1.0) if optimizer == "adamw" else AdafactorConfig(name="adafactor")
    shape = tiny_shape(family, vocab=vocab, layers=layers, **WIDE if wide else {})
    memory = MemoryConfig(loss_chunk=chunk, remat="layer")
    return JaxEngine.open(request(shape, mesh=MESHES[mesh], optimizer=rule, memory=memory, **changes))


def curve(e: JaxEngine, state: dict, steps: int, first: int = 0) -> tuple[dict, list[float]]:
    found = []
    for i in range(first, first + steps):
        state, result = e.step(state, random_batch(e.spec.shape, micro=2, rows=8, seed=i % 4), 1e-3)
        found.append(result.loss)
    return state, found


def same_batch(e: JaxEngine, state: dict, batch: Batch, steps: int) -> tuple[list, Any]:
    """Results of steps on one batch, and the log probabilities of the first."""
    found = []
    for _ in range(steps):
        state, result = e.step(state, batch, 1e-3)
        found.append(result)
    return [[each.loss, each.grad_norm, *each.metrics.values()] for each in found], found[0].log_probs


def objective(meshes: tuple[tuple[str, int], ...], family: str, layers: int) -> dict:
    """Log probabilities and three steps of a policy gradient on meshes, each with its chunk of the loss."""
    found = {}
    rewarded = PolicyGradient(kl_beta=0.3, ratio="sequence", normalize="sequences")
    for mesh, chunk in meshes:
        e = engine(mesh, family, layers=layers, chunk=chunk, objective=rewarded)
        state, plain = e.init(0), random_batch(e.spec.shape, micro=2, rows=8)
        log_probs = e.log_probs(state, plain)
        results, first = same_batch(e, state, with_signals(plain, log_probs), 3)
        found[mesh] = {"log_probs": log_probs.tolist(), "of_first_step": first.tolist(), "results": results}
    return found


def top_tokens() -> dict:
    """What a teacher finds the most likely, and two steps that learn from it, on one device and on a mesh."""
    found = {}
    for mesh, chunk in (("1", 0), ("4x2", 5)):
        e = engine(mesh, layers=1, chunk=chunk, objective=TopTokens(top_k=12))
        batch = random_batch(e.spec.shape, micro=2, rows=8)
        tokens, log_probs = e.most_likely(e.init(1), batch, 12, 60)
        results, _ = same_batch(e, e.init(0), with_top_tokens(batch, tokens, log_probs), 2)
        found[mesh] = {"tokens": tokens.tolist(), "log_probs": log_probs.tolist(), "results": results}
    return found


def adapters(method: str, folder: Path) -> dict:
    """Curves on a mesh and on one device, and a checkpoint of the mesh that continues with one."""
    found = {}
    for mesh, chunk in (("4x2", 5) if method == "qlora" else ("8", 8), ("1", 0)):
        e = engine(mesh, chunk=chunk, method=METHODS[method], wide=method == "qlora")
        state, found[mesh] = curve(e, e.init(0), 5)
        if mesh == "1":
            found["1 later"] = curve(e, e.restore(folder), 2, 5)[1]
        else:
            e.save(state, folder)
            found["later"] = curve(e, state, 2, 5)[1]
            places = e.shardings["params"]["layers"]
            found["places"] = {name: list(place.shard_shape(x.shape)) for (name, place), x in
                               zip(places.items(), e.abstract_state["params"]["layers"].values(), strict=True)}
    return found


def copies(folder: Path, *meshes: tuple[str, int, str]) -> dict:
    """Three steps of several copies and of one device, then three more: there, and on both from the slices."""
    found = {}
    for mesh, vocab, optimizer in meshes:
        e, one = (engine(name, vocab=vocab, optimizer=optimizer) for name in (mesh, "1"))
        (slices := folder / mesh).mkdir()
        state, losses = curve(e, e.init(0), 3)
        e.save_shards(state, slices)
        four = []
        if optimizer == "adafactor":  # its rows and columns of moments are split like the matrices they belong to
            e.save(state, folder)
            other = engine("4", vocab=vocab, optimizer=optimizer)
            four = [curve(other, other.restore(place), 3, 3)[1] for place in (folder, slices)]
        losses += curve(e, state, 3, 3)[1]
        _, expected = curve(one, one.init(0), 6)
        prompts, asked = [[5, 9, 33], [8], [60, 7, 7, 2]], {"max_new_tokens": 6, "stop_ids": []}
        found[mesh] = {
            "losses": losses, "one": expected, "four": four, "resumed": curve(e, e.restore(slices), 3, 3)[1],
            "one resumed": curve(one, one.restore(slices), 3, 3)[1], "mesh": dict(e.describe().mesh),
            "place": e.shardings["params"]["layers"]["mlp.up_proj.weight"].shard_shape((3, 48, 32)),
            "answers": [[c.tokens for c in x.generate(x.init(2), prompts, **asked)] for x in (e, one)]}
    return found


def generation() -> dict:
    prompts = [np.random.default_rng(i).integers(0, 64, n).tolist() for i, n in enumerate((3, 9, 12))]
    found = {}
    for mesh in ("1", "4x2"):
        # On fsdp=4 x tp=2 each device reads its two prompts one after the other.
        prefill.LARGEST_ACTIVATION = 1 if mesh == "4x2" else 1 << 28
        e = engine(mesh)
        state, asked = e.init(2), {"max_new_tokens": 6, "stop_ids": []}
        # Read once for eight completions by one device, for two and for four of them by several.
        drawn = e.sample(state, [p for p in prompts for _ in range(8)], temperature=1.0, seeds=range(24), **asked)
        found[mesh] = [c.tokens for c in [*e.generate(state, prompts, **asked), *drawn]]
        for way, memory in {"once": e.spec.device_bytes, "every token": 0}.items() if mesh == "4x2" else ():
            spec = replace(e.spec, device_bytes=memory)
            found[way] = [c.tokens for c in Generator(spec).answer(state["params"], prompts, 6, [])]
            found[f"{way}, streamed"] = []
            Generator(spec).stream(state["params"], prompts[0], 6, [], found[f"{way}, streamed"].append)
            found[f"{way}, text"] = lower_generation(spec, e.abstract_state, e.shardings, GenerationShape(8, 12, 6),
                                                     drawn=0).compile().as_text()
    return found


def places() -> dict:
    """Where things are in the compiled module: shape of each device's batch, and every array type that occurs."""
    embedding.GATHERED = 32  # of eight devices, 4 each; the usual 8192 positions would be the whole tiny batch
    e = engine("8", vocab=128)
    compiled = e.compiled_step(Batch.blank((1, 16, 32)))
    batch = compiled.input_shardings[0][1]["tokens"].shard_shape((1, 16, 32))
    moments = compiled.input_shardings[0][0]["moments"]["exp_avg"]["layers.mlp.up_proj.weight"].shard_shape((3, 48, 32))
    split = e.shardings["moments"]["exp_avg"]["layers.mlp.up_proj.weight"]
    stack = jax.ShapeDtypeStruct((3, 48, 32), np.float32, sharding=split)
    saved = checkpoint.gather(e.layout.sharding(), of_a_stack=True).lower(stack, 0).compile()
    return {"tokens": batch, "moment": moments, "text": compiled.as_text(), "saved": saved.as_text()}


if __name__ == "__main__":
    case, folder = sys.argv[1], Path(sys.argv[2])
    answers = {"qlora": lambda: adapters("qlora", folder), "dropout": lambda: adapters("dropout", folder),
               "generation": generation, "places": places, "top tokens": top_tokens,
               # A vocabulary that is split, one that is not, and devices that each have a whole copy.
               "copies": lambda: copies(folder, ("2x2x2", 64, "adamw"), ("2x4x1", 61, "adafactor")),
               "whole copies": lambda: copies(folder, ("8x1x1", 64, "adamw")),
               "objective": lambda: objective((("1", 0), ("4x2", 5)), "gemma2", 2),
               # Layers that are not alike: several loops, heads of two sizes, keys that later layers share.
               "objective on every mesh": lambda: objective((("1", 0), ("8", 8), ("4x2", 5)), "gemma4", 0)}
    json.dump(answers[case](), sys.stdout)
