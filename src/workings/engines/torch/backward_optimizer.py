"""The optimizer inside the backward pass: a gradient is used in the moment it is complete, and freed.

Peak memory then holds one gradient at a time instead of all. What needs all gradients at once cannot go with it:
clipping by the global norm (the norm is known only at the end) and accumulation (a gradient is complete only after the
last micro batch).
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
    """Raise `RequestError` for an optimizer in backward next to what keeps all gradients alive."""
    clip = request.optimizer.clip_norm
    conflicts = {f"optimizer.clip_norm: {clip:g}": clip > 0, f"batch.accumulation: {accumulation}": accumulation > 1}
    if request.memory.optimizer_in_backward and any(conflicts.values()):
        raise RequestError("memory.optimizer_in_backward: true does not work with "
                           + " and ".join(name for name, holds in conflicts.items() if holds),
                           "one gradient at a time; these keep all gradients alive",
                           "memory.optimizer_in_backward=false, or optimizer.clip_norm=0 batch.accumulation=1")


class BackwardOptimizer:
    """Hooks that update each parameter as soon as autograd has its whole gradient, and drop the gradient.

    A tensor that is used twice (a tied embedding) is updated once, with the sum. Hooks do nothing outside of `armed`.
    """

    def __init__(self, params: Mapping[str, torch.nn.Parameter], optimizer: Optimizer,
                 moments: Mapping[str, Mapping[str, Tensor]]) -> None:
        self.optimizer = optimizer
        self.moments = moments
        self._context: UpdateContext | None = None
        # They stay on the device: reading them here would make the host wait within backward.
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
        # A backward outside of a step, such as one that a comparison of engines takes, must change nothing.
        if self._context is None or param.grad is None:
            return
        # Taken off first, so that the gradient is freed at the end of this call.
        grad, param.grad = param.grad, None
        with torch.no_grad():
            # Before the update, which may use up the gradient.
            self.squares += sum_of_squares(grad)
            self.changed += update_tensor(self.optimizer, name, param, grad, slots_of(self.moments, name),
                                          self._context)
