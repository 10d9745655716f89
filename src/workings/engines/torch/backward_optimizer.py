"""The optimizer inside the backward pass: each gradient is used as soon as it is complete, and then freed.

So memory holds one gradient at a time. Clipping by the global norm and accumulation need all gradients at once, and are
refused.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor

from workings.engines.base import EngineRequest
from workings.engines.torch.optimizers import update_tensor
from workings.engines.torch.optimizers.base import Optimizer, UpdateContext, slots_of, sum_of_squares
from workings.errors import RequestError


def refuse_conflicts(request: EngineRequest, accumulation: int) -> None:
    """Raise `RequestError` for an optimizer in backward together with settings that keep all gradients alive."""
    conflicts = []
    if request.optimizer.clip_norm > 0:
        conflicts.append(f"optimizer.clip_norm: {request.optimizer.clip_norm:g}")
    if accumulation > 1:
        conflicts.append(f"batch.accumulation: {accumulation}")
    if request.memory.optimizer_in_backward and conflicts:
        raise RequestError(f"memory.optimizer_in_backward: true does not work with {' and '.join(conflicts)}",
                           "one gradient at a time; these keep all gradients alive",
                           "memory.optimizer_in_backward=false, or optimizer.clip_norm=0 batch.accumulation=1")


class BackwardOptimizer:
    """Hooks that update each parameter once autograd has its whole gradient. They do nothing outside of `armed`."""

    def __init__(self, params: Mapping[str, torch.nn.Parameter], optimizer: Optimizer,
                 moments: Mapping[str, Mapping[str, Tensor]]) -> None:
        self.optimizer = optimizer
        self.moments = moments
        self._context: UpdateContext | None = None
        device = next(iter(params.values())).device
        self.squares = torch.zeros((), device=device)
        """Sum of the squares of all gradients of the last step, float32."""
        self.changed = torch.zeros((), dtype=torch.int64, device=device)
        """Stored weights that the last step changed."""
        for name, param in params.items():
            param.register_post_accumulate_grad_hook(lambda p, name=name: self._use(name, p))

    @contextmanager
    def armed(self, context: UpdateContext) -> Iterator[None]:
        """Inside, backward updates."""
        self.squares, self.changed = torch.zeros_like(self.squares), torch.zeros_like(self.changed)
        self._context = context
        try:
            yield
        finally:
            self._context = None

    def _use(self, name: str, param: Tensor) -> None:
        if self._context is None or param.grad is None:
            return
        grad, param.grad = param.grad, None  # freed at the end of this call
        with torch.no_grad():
            self.squares += sum_of_squares(grad)
            self.changed += update_tensor(self.optimizer, name, param, grad, slots_of(self.moments, name),
                                          self._context)
