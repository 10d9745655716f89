"""The compiler's assignment of addresses, read and named."""

import pytest

from workings.engines.jax.buffer_assignment import (
    CACHE,
    GRADIENTS,
    KEPT,
    LOGITS,
    OTHER,
    Sizes,
    Value,
    heap_parts,
    name_of,
    read_heap,
)
from workings.models.shapes import published_shape

ASSIGNMENT = """BufferAssignment:
allocation 0: size 4096, parameter 0, shape |f32[1024]| at ShapeIndex {}, maybe-live-out:
 value: <1 parameter @0> (size=4096,offset=0): f32[1024]{0}
allocation 1: size 65536, preallocated-temp:
 value: <9 small @0> (size=8192,offset=0): f32[4,512]{1,0}
allocation 7: size 9999999, color 1, page 0, preallocated-temp:
 value: <8 on_chip @0> (size=9999999,offset=0): s8[9999999]{0}
allocation 2: size 1000000, preallocated-temp:
 value: <2 first @0> (size=400000,offset=0): f32[2,50000]{1,0}
 value: <3 tuple{} @0> (size=64,offset=999000): (f32[2], s32[])
 value: <4 second @0> (size=600000,offset=300000): bf16[3,7,99991]{2,1,0:T(8,128)(2,1)}
 value: <5 inside @0> (size=8192,offset=400000): s32[2048]{0}
 value: <6 tiny @0> (size=4,offset=950000): s32[]
"""


def sizes(**changes):
    shape = published_shape("gemma-2b")
    return Sizes(**{"shape": shape, "rows": 2, "length": 512, "devices": 8, "parameter_dtype": "bf16",
                    "stacked": frozenset({(18, 256, 2048)}), "single": frozenset({(2048, 2048)})} | changes)


def test_the_largest_heap_and_its_arrays():
    whole, values = read_heap(ASSIGNMENT)
    assert whole == 1_000_000
    assert [value.size for value in values] == [400_000, 600_000, 8192]
    assert values[1].dims == (3, 7, 99991)


def test_every_address_goes_to_the_largest_array_that_is_there():
    parts = heap_parts(ASSIGNMENT, sizes(rows=1, length=7))
    assert sum(parts.values()) == 1_000_000
    # 300,000 of the first before the second begins, 600,000 of the second, 100,000 that nothing covers.
    assert parts == {"activations of the layer at hand": 600_000, OTHER: 400_000}


NAMES = {
    "f32[1024,32000]": (LOGITS, LOGITS), "f32[32000,2048]": ("embedding in fp32 (gradient and update)", ""),
    "bf16[32000,2048]": ("gradient of the embedding", ""), "f32[18,2048,256]": ("update in fp32", ""),
    "bf16[18,256,2048]": (GRADIENTS, "weights gathered or in another format"),
    "bf16[18,2,512,2048]": (KEPT, CACHE), "bf16[2048,2048]": ("weights and gradients of the layer at hand", ""),
    "f32[2,8,512,512]": ("attention scores", ""), "bf16[2,512,16384]": ("activations of the layer at hand", ""),
    "f32[77,3]": (OTHER, "")}
"""An array -> its name in a step, and in a program without updates where it is another one."""


@pytest.mark.parametrize("array", NAMES)
def test_arrays_are_named_by_their_sizes(array):
    dtype, dims = array.rstrip("]").split("[")
    value = Value(0, 1 << 20, dtype, tuple(map(int, dims.split(","))))
    step, other = NAMES[array]
    assert name_of(value, sizes()) == step
    assert not other or name_of(value, sizes(updates=False)) == other
