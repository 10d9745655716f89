"""The catalog of targets: nothing without a source, nothing missing without a reason."""

from math import prod

import pytest

from workings.errors import RequestError
from workings.hardware.catalog import find_target, gpu_config, targets


@pytest.mark.parametrize("name", targets())
def test_a_row_says_where_it_is_from_and_why_anything_is_missing(name):
    row = targets()[name]
    assert len(row.source) > 10
    missing = {key for key in (
        "memory_gb_per_device", "usable_gib", "bandwidth_gb_s", "rates_tflops", "interconnect_gb_s",
        "compute_capability", "topology", "gpu_config", "accelerator_type",
        "kaggle_session_hours") if not getattr(row, key)}
    assert missing == set(row.absent)
    assert all(len(why) > 5 for why in row.absent.values())
    assert row.devices % row.chips == 0
    assert set(row.rates_tflops) <= {"bf16", "fp16", "fp32", "tf32", "int8", "fp8"}
    assert set(row.no_matrix_units) <= {"bf16", "fp16", "fp32"}
    if row.usable_gib:
        assert 0.9 < row.usable_gib / row.memory_gb_per_device < 1.01
        assert row.usable_source
    if row.platform == "tpu":
        assert prod(map(int, row.topology.split(":")[1].split("x"))) * row.slices == row.chips
        assert row.topology_options.get("num_slices", 1) == row.slices
        assert (row.slices > 1) == bool(row.network_gb_s)
    if row.platform == "gpu":
        assert float(row.compute_capability) >= 6


def test_other_spellings_and_near_names():
    assert find_target("v5litepod-8").name == "v5e-8"
    assert find_target("RTX 5090").name == "rtx5090"
    with pytest.raises(RequestError) as caught:
        find_target("v5e-9")
    assert "v5e-8" in caught.value.try_next
    with pytest.raises(RequestError, match="v5e-8"):
        find_target("zzzzzz")


@pytest.mark.parametrize("name", [row.name for row in targets().values() if row.platform == "gpu"])
def test_a_card_that_the_compiler_is_told_about_is_the_one_of_the_row(name):
    row = targets()[name]
    told = gpu_config(row.gpu_config)
    assert told["compute_capability"].rstrip("a") == row.compute_capability
    assert len(told["source"]) > 10
    assert told["derived"] == ("openxla/xla" not in told["source"] or "," in told["source"].split(".txtpb")[1])
    assert told["memory_bandwidth"] == pytest.approx(row.bandwidth_gb_s * 10**9, rel=0.05)
    assert abs(told["device_memory_size"] - row.memory_bytes) < 0.01 * 2**30
    assert row.topology == f"1x1x{row.devices}"
