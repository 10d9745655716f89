"""What devices send to each other in an update, by hand; and the seconds of it."""

from dataclasses import replace

import pytest

from tests.planning.planning_helpers import recipe, request_of
from workings.engines.base import MeshShape
from workings.hardware.catalog import targets
from workings.models.batch import BatchShape
from workings.planning.run_time import (
    Throughput,
    communication_seconds,
    step_operations,
    step_seconds,
    traffic_of_an_update,
)

BF16 = request_of(recipe(precision={"parameters": "bf16", "compute": "bf16", "rounding": "stochastic"}))
LAYERS = 2 * (2 * 16 + 16 * 16 + 2 * 8 * 16 + 16 * 16 + 3 * 32 * 16)
"""Weights of the helper's two layers, norms among them."""
EIGHT = MeshShape(8, 1)


def traffic(request=BF16, rows=8, mesh=EIGHT, accumulation=1, slices=1):
    return traffic_of_an_update(request, BatchShape(accumulation, rows, 64), mesh, slices)


def test_weights_travel_twice_and_gradients_once_without_the_part_that_is_there_already():
    assert traffic() == (3 * 2 * LAYERS * 7 / 8, 0)
    assert traffic(accumulation=2).between_devices == 2 * traffic().between_devices


def test_weights_that_are_computed_in_fewer_bytes_travel_in_those():
    mixed = request_of(recipe(precision={"parameters": "fp32", "compute": "bf16"}))
    assert traffic(mixed).between_devices == (2 * 2 + 4) * LAYERS * 7 / 8


def test_frozen_matrices_travel_in_the_bits_that_they_are_stored_in():
    thin = {"name": "qlora", "rank": 4, "target_modules": ["q_proj"]}
    small, large = (traffic(request_of(recipe(method=thin, precision={"parameters": each, "compute": "bf16"})),
                            rows=2, mesh=MeshShape(2, 1)).between_devices for each in ("bf16", "fp32"))
    assert small <= large  # norms and embeddings alone are stored in more bytes


def test_frozen_weights_have_no_gradients():
    thin = replace(BF16, method=recipe(method={"name": "lora", "rank": 4, "target_modules": ["q_proj"]}).method)
    assert traffic(thin, rows=2, mesh=MeshShape(2, 1)).between_devices == (2 * 2 * LAYERS + 4 * 2 * 4 * (16 + 16)) / 2


def test_layers_are_summed_over_tp():
    assert traffic(rows=2, mesh=MeshShape(1, 2)).between_devices == (2 * 2 * 2) * 2 * 0.5 * 2 * 64 * 16 * 2


def test_slices_share_what_comes_from_another():
    assert traffic(slices=2).between_slices == 3 * 2 * LAYERS / 2 / 4


def test_copies_send_each_other_gradients_alone():
    """Four devices each, on a slice of their own or on the same one."""
    copies = MeshShape(4, 1, replicate=2)
    apart = traffic(mesh=copies, slices=2)
    assert apart == (3 * 2 * LAYERS * 3 / 4, 2 * (LAYERS + 96 * 16 + 16) / 4)
    assert traffic(mesh=copies) == (sum(apart), 0)


def test_seconds_are_added_to_the_computing_unless_runs_say_the_pace():
    v5e, batch, mesh = targets()["v5e-8"], BatchShape(1, 8, 64), EIGHT
    sending = communication_seconds(BF16, batch, v5e, mesh)
    assert sending == pytest.approx(3 * 2 * LAYERS * 7 / 8 / 100e9)
    seconds, how = step_seconds(BF16, batch, v5e, mesh)
    assert seconds == pytest.approx(step_operations(BF16, (1, 8, 64)) / (197e12 * 0.4 * 8) + sending)
    assert "nothing of it hidden" in how
    pace = Throughput(operations_a_second=1e12, source="measured")
    assert step_seconds(BF16, batch, v5e, mesh, pace)[0] == step_operations(BF16, batch) / 8e12
    without = replace(v5e, interconnect_gb_s=0.0)
    assert "the catalog has no rate" in step_seconds(BF16, batch, without, mesh)[1]
    two = replace(v5e, slices=2, network_gb_s=3.0)
    assert communication_seconds(BF16, batch, two, mesh) > sending
    assert communication_seconds(BF16, batch, replace(two, network_gb_s=0.0), mesh) is None
