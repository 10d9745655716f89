"""`doctor --setup cuda`: the printed commands, and when there are none."""

from tests.doctor.making import card
from workings.doctor.nvidia import Driver
from workings.doctor.setup_cuda import ENVIRONMENT, plan_setup


def test_what_is_to_be_done_is_printed_with_the_index_and_a_kernel_at_the_end():
    plan = plan_setup(Driver(cards=(card("12.0", "580.65.06", "NVIDIA GeForce RTX 5090"),), cuda="13.0"))
    assert plan.build.tag == "cu130"
    assert "whl/cu130" in "\n".join(plan.lines())
    assert plan.commands[-1][-2:] == ("--kernel", "fp32")
    assert all(command[0].startswith(str(ENVIRONMENT)) or command[-1] == str(ENVIRONMENT) for command in plan.commands)


def test_without_a_build_nothing_is_set_up():
    refused = plan_setup(Driver(cards=(card("3.7", "470.82.01"),), cuda="11.4"))
    assert "holds no code" in refused.what
    assert "update NVIDIA's driver" in refused.mend
