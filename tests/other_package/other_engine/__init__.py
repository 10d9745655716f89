"""An engine that another package brings: a unigram model in NumPy, trained by gradient descent.

It is small enough that a run takes no time, and real enough to learn: logits over the vocabulary, the exact gradient,
momentum as optimizer state. Environment variables make it misbehave, for tests of what the package does then:
`UNIGRAM_SECONDS` (each step takes that long), `UNIGRAM_NAN_AT` (that step's loss is not a number) and
`UNIGRAM_HUNGRY_AT` (that step asks the system for more memory than any machine has).
"""

import os
import time
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

from workings.engines.base import Completion, Inspection, LossSum, Memory, StepResult
from workings.hardware.device import DeviceFacts

MOMENTUM = 0.9


class UnigramEngine:
    """`workings.engines.base.Engine` in forty lines of arithmetic."""

    name = "unigram"

    def __init__(self, request):
        self.request = request
        self.read = (request.optimizer.name, request.precision.parameters, request.memory.remat)

    @classmethod
    def open(cls, request):
        return cls(request)

    def describe(self):
        limit = int(os.environ.get("UNIGRAM_LIMIT_BYTES", str(2**30)))
        return DeviceFacts(platform="cpu", kind="one core", count=1, memory_limit_bytes=limit,
                           memory_limit_source="test", mesh={"fsdp": 1, "tp": 1}, versions={"numpy": np.__version__},
                           reason="asked for")

    def dtypes(self):
        return {"parameters": "float64", "compute": "float64", "moments": "float64"}

    def init(self, seed):
        logits = np.random.default_rng(seed).normal(size=self.request.shape.vocab_size) * 0.01
        return {"logits": logits, "velocity": np.zeros_like(logits), "step": np.zeros((), np.int64)}

    def load(self, weights):
        state = self.init(0)
        return state | {"logits": load_file(weights / "model.safetensors")["logits"]}

    def _loss(self, state, batch):
        logits = state["logits"] - np.logaddexp.reduce(state["logits"])
        counts = np.bincount(batch.targets.ravel(), weights=batch.weights.ravel().astype(np.float64),
                             minlength=len(logits))
        return float(-(counts @ logits)), counts, np.exp(logits)

    def step(self, state, batch, learning_rate):
        time.sleep(float(os.environ.get("UNIGRAM_SECONDS", "0")))
        if int(state["step"]) + 1 == int(os.environ.get("UNIGRAM_HUNGRY_AT", "-1")):
            np.empty(2**60, np.uint8)
        total, counts, probabilities = self._loss(state, batch)
        gradient = probabilities - counts / counts.sum()
        velocity = MOMENTUM * state["velocity"] + gradient
        logits = state["logits"] - learning_rate * velocity
        step = state["step"] + 1
        loss = total / counts.sum()
        if int(step) == int(os.environ.get("UNIGRAM_NAN_AT", "-1")):
            loss = float("nan")
        changed = float(np.mean(logits != state["logits"]))
        return ({"logits": logits, "velocity": velocity, "step": step},
                StepResult(loss=loss, grad_norm=float(np.linalg.norm(gradient)), share_of_weights_changed=changed))

    def evaluate(self, state, batch):
        return LossSum(loss_sum=self._loss(state, batch)[0], supervised_tokens=batch.supervised_tokens)

    def generate(self, state, prompts, *, max_new_tokens, stop_ids):
        best = int(np.argmax(state["logits"]))
        if best in stop_ids:
            return [Completion(tokens=[], finish_reason="stop") for _ in prompts]
        return [Completion(tokens=[best] * max_new_tokens, finish_reason="length") for _ in prompts]

    def save(self, state, directory):
        save_file({"logits": state["logits"]}, directory / "model.safetensors")
        save_file({"velocity": state["velocity"], "step": state["step"]}, directory / "optimizer.safetensors")

    def restore(self, directory):
        return load_file(directory / "model.safetensors") | load_file(directory / "optimizer.safetensors")

    def export(self, state, directory):
        save_file({"logits": state["logits"]}, Path(directory) / "model.safetensors")

    def memory(self):
        return Memory(peak_bytes=3 * 8 * self.request.shape.vocab_size, source="counted")

    def inspect(self, batch):
        return Inspection(peak_bytes=3 * 8 * self.request.shape.vocab_size, source="estimated",
                          breakdown={"state": 2 * 8 * self.request.shape.vocab_size},
                          versions={"numpy": np.__version__})

    def check_device(self):
        product = np.arange(4.0).reshape(2, 2) @ np.ones((2, 1))
        return {"kernel": "2 x 2 matrix product", "result": product.ravel().tolist()}
