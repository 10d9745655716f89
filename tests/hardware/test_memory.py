"""What this machine offers: files written here, and limits that the kernel really sets on a child."""

import json

import pytest

from workings.hardware.memory import byte_text, gib, host_memory

GIB = 2**30


@pytest.fixture
def root(tmp_path):
    """A machine of 8 GiB, 6 of them available."""
    kib = GIB // 1024
    write(tmp_path, "proc/meminfo", f"MemTotal: {8 * kib} kB\nMemFree: 10 kB\nMemAvailable: {6 * kib} kB\n")
    return tmp_path


def write(root, name, text):
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


def test_without_a_group_it_is_the_machine(root):
    found = host_memory(root)
    assert (found.limit_bytes, found.available_bytes) == (8 * GIB, 6 * GIB)
    assert found.limit_source == found.available_source == "machine (/proc/meminfo)"


@pytest.mark.parametrize(("membership", "folder", "files"), [
    ("", "sys/fs/cgroup", ("memory.max", "memory.current")),
    ("0::/jobs/one\n", "sys/fs/cgroup/jobs/one", ("memory.max", "memory.current")),
    ("0::/jobs/one\n", "sys/fs/cgroup/jobs", ("memory.max", "memory.current")),
    ("", "sys/fs/cgroup/memory", ("memory.limit_in_bytes", "memory.usage_in_bytes")),
    ("4:memory:/jobs/one\n0::/\n", "sys/fs/cgroup/memory/jobs/one", ("memory.limit_in_bytes", "memory.usage_in_bytes")),
])
def test_the_group_of_this_process_or_one_around_it_counts(root, membership, folder, files):
    write(root, "proc/self/cgroup", membership)
    write(root, f"{folder}/{files[0]}", f"{2 * GIB}\n")
    write(root, f"{folder}/{files[1]}", f"{GIB}\n")
    write(root, f"{folder}/memory.stat", f"anon 5\ninactive_file {GIB // 2}\ntotal_inactive_file {GIB // 2}\n")
    found = host_memory(root)
    assert (found.limit_bytes, found.limit_source) == (2 * GIB, f"control group ({files[0]})")
    assert found.available_bytes == 2 * GIB - GIB // 2, "cached files are given up before memory is refused"


@pytest.mark.parametrize("text", ["max\n", f"{2**63 - 4096}\n", f"{16 * GIB}\n"])
def test_a_group_without_a_limit_below_the_machine_changes_nothing(root, text):
    write(root, "sys/fs/cgroup/memory.max", text)
    write(root, "sys/fs/cgroup/memory.current", "0\n")
    assert host_memory(root).limit_bytes == 8 * GIB


def test_another_group_is_not_ours_and_a_full_one_has_nothing_left(root):
    write(root, "proc/self/cgroup", "0::/jobs/one\n")
    write(root, "sys/fs/cgroup/jobs/two/memory.max", f"{GIB}\n")
    assert host_memory(root).limit_bytes == 8 * GIB
    write(root, "sys/fs/cgroup/memory.max", f"{GIB}\n")
    write(root, "sys/fs/cgroup/memory.current", f"{GIB + 4096}\n")
    assert host_memory(root).available_bytes == 0


def test_an_address_space_limit_is_seen_by_the_process_that_has_it(run_python):
    code = ("import json, resource; resource.setrlimit(resource.RLIMIT_AS, (3 * 2**30, 3 * 2**30));"
            "from workings.hardware.memory import host_memory; print(json.dumps(vars(host_memory())))")
    found = json.loads(run_python("-c", code).stdout)
    assert (found["limit_bytes"], found["limit_source"]) == (3 * GIB, "address space (ulimit -v)")
    assert 0 < found["available_bytes"] < 3 * GIB


def test_bytes_as_people_read_them():
    assert [gib(size) for size in (2**30, 2**30 - 1, 0)] == ["1.00 GiB", "1024.0 MiB", "0.0 MiB"]
    assert [byte_text(size) for size in (0, 1023, 1536, 2**20, 2**40, 2**60)] == [
        "0 B", "1023 B", "1.5 KiB", "1.0 MiB", "1.0 TiB", "1048576.0 TiB"]
