"""The optimizer inside the backward pass: a gradient is used in the moment it is complete, and freed.

Peak memory then holds one gradient at a time instead of all. What needs all gradients at once cannot go with it:
clipping by the global norm (the norm is known only at the end) and accumulation (a gradient is complete only after the
last micro batch).
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from math import prod

import torch
from torch import Tensor

from workings.config.training import BYTES_OF_FORMAT
from workings.engines.base import EngineRequest
from workings.engines.torch.optimizers import update_tensors
from workings.engines.torch.optimizers.base import Optimizer, TensorUpdate, UpdateContext, sum_of_squares
from workings.errors import RequestError
from workings.models.weights import is_frozen, tensor_shapes


def refuse_conflicts(request: EngineRequest, accumulation: int) -> None:
    """Refuse what keeps all gradients alive with an optimizer in backward. Raises `RequestError` with the bytes."""
    if not request.memory.optimizer_in_backward:
        return
    clip = request.optimizer.clip_norm
    conflicts = {f"optimizer.clip_norm: {clip:g}": clip > 0, f"batch.accumulation: {accumulation}": accumulation > 1}
    asked = [name for name, holds in conflicts.items() if holds]
    if asked:
        # The error says in bytes what the other setting costs.
        held = gradient_bytes(request)
        wanted = [f"{name} keeps all gradients alive, {held / 2 ** 30:.2f} GiB ({held} bytes)" for name in asked]
        away = " ".join(word for word, holds in zip(("optimizer.clip_norm=0", "batch.accumulation=1"),
                                                    conflicts.values(), strict=True) if holds)
        raise RequestError("memory.optimizer_in_backward: true does not work with " + " and ".join(asked),
                           "one or the other: " + "; ".join(wanted) + "; the optimizer in backward keeps one gradient",
                           f"memory.optimizer_in_backward=false, or {away}")


def gradient_bytes(request: EngineRequest) -> int:
    """Bytes of all gradients of a full fine-tune, in the format of the parameters."""
    # Frozen tensors have no gradient.
    elements = sum(prod(size) for name, size in tensor_shapes(request.shape).items()
                   if not is_frozen(name, request.shape))
    return elements * BYTES_OF_FORMAT[request.precision.parameters]


class BackwardOptimizer:
    """Hooks that update each parameter as soon as autograd has its whole gradient, and drop the gradient.

    A tensor that is used twice (a tied embedding) is updated once, with the sum. Hooks do nothing outside of `armed`.
    """

    def __init__(self, params: Mapping[str, torch.nn.Parameter], optimizer: Optimizer,
                 moments: Mapping[str, Mapping[str, Tensor]]) -> None:
        self.optimizer = optimizer
        self.moments = moments
        self._context: UpdateContext | None = None
        self.squares = torch.zeros(())
        """Sum of the squares of all gradients of the last step, float32."""
        self.changed = torch.zeros((), dtype=torch.int64)
        """Stored weights that the last step changed."""
        for name, param in params.items():
            # Called once a parameter has its whole gradient, also where it is used twice.
            param.register_post_accumulate_grad_hook(lambda p, name=name: self._use(name, p))
        self._device = next(iter(params.values())).device

    @contextmanager
    def armed(self, context: UpdateContext) -> Iterator[None]:
        """Inside, backward updates."""
        # They stay on the device: reading them here would make the host wait within backward.
        self.squares = torch.zeros((), dtype=torch.float32, device=self._device)
        self.changed = torch.zeros((), dtype=torch.int64, device=self._device)
        self._context = replace(context)
        try:
            yield
        finally:
            self._context = None

    def _use(self, name: str, param: Tensor) -> None:
        # A backward outside of a step, such as one that a comparison of engines takes, must change nothing.
        if self._context is None or param.grad is None:
            return
        # Taken off first, so that the gradient dies with this call while backward goes on.
        grad, param.grad = param.grad, None
        with torch.no_grad():
            # Summed before the update, which may use up the gradient.
            self.squares += sum_of_squares(grad)
            self.changed += update_tensors(
                self.optimizer, [TensorUpdate.of(name, param, grad, self.moments)], self._context)
