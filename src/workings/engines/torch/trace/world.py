"""Processes that are not there, for the trace of one that shares its step with them."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore

from workings.engines.torch.sharding import ProcessMesh


@contextmanager
def pretended(fsdp: int) -> Iterator[ProcessMesh]:
    """The mesh of process 0 of ``fsdp``, whose parts are the largest; nothing is ever sent.

    Only in a program without real processes beside it: PyTorch keeps plans of communication by the shape of a mesh, and
    would take those of one for the other.
    """
    if fsdp == 1:
        yield ProcessMesh()
        return
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=fsdp)
    try:
        yield ProcessMesh(fsdp=fsdp)
    finally:
        dist.destroy_process_group()
