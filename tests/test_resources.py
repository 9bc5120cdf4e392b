"""The limits of control groups are respected, of version 1 and 2, however they are mounted."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from sweeper.process import Limits, installed_bytes, limits, physical_bytes, usable_cores

GiB = 2**30
# the contents of /proc/self/cgroup, the files below /sys/fs/cgroup, the limits in cores and GiB
CASES: dict[str, tuple[str | None, Mapping[str, str], float | None, float | None]] = {
    "a container of version 2": (
        "0::/",
        {"cpu.max": "150000 100000\n", "memory.max": f"{2 * GiB}\n"},
        1.5,
        2,
    ),
    "without limits": ("0::/", {"cpu.max": "max 100000", "memory.max": "max"}, None, None),
    "less than a core": ("0::/", {"cpu.max": "10000 50000"}, 0.2, None),
    "a default period": ("0::/", {"cpu.max": "50000"}, 0.5, None),
    "a group around it grants less": (
        "0::/user.slice/job/step",
        {
            "cgroup.controllers": "cpu memory",
            "user.slice/cpu.max": "200000 100000",
            "user.slice/memory.max": f"{8 * GiB}",
            "user.slice/job/cpu.max": "100000 100000",
            "user.slice/job/memory.max": f"{GiB}",
            "user.slice/job/step/cpu.max": "400000 100000",
            "user.slice/job/step/memory.max": "max",
            "other/cpu.max": "1000 100000",
        },
        1.0,
        1,
    ),
    "memory.high": ("0::/a", {"a/memory.max": f"{4 * GiB}", "a/memory.high": f"{GiB}"}, None, 1),
    "the path of the host, which is not visible": (
        "0::/system.slice/docker-1.scope",
        {"cpu.max": "100000 100000"},
        1.0,
        None,
    ),
    "a path out of the namespace": (
        "0::/../../pod/c",
        {"pod/c/cpu.max": "300000 100000"},
        3.0,
        None,
    ),
    "no /proc": (None, {"memory.max": f"{GiB}"}, None, 1),
    "version 1": (
        "11:cpu,cpuacct:/docker/1\n4:memory:/docker/1\n1:name=systemd:/docker/1",
        {
            "cpu,cpuacct/docker/1/cpu.cfs_quota_us": "50000",
            "cpu,cpuacct/docker/1/cpu.cfs_period_us": "100000",
            "memory/docker/memory.limit_in_bytes": f"{3 * GiB}",
            "memory/docker/1/memory.limit_in_bytes": "9223372036854771712",
        },
        0.5,
        3,
    ),
    "version 1 in a container": (
        "11:cpu,cpuacct:/docker/1\n4:memory:/docker/1",
        {
            "cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
            "cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            "memory/memory.limit_in_bytes": f"{GiB}\n",
        },
        None,
        1,
    ),
    "both, limited by version 2": (
        "4:memory:/\n0::/job",
        {
            "unified/job/cpu.max": "100000 100000",
            "memory/memory.limit_in_bytes": "9223372036854771712",
        },
        1.0,
        2**33 - 4096 / GiB,
    ),
    "a group of version 2 with the name of a controller": (
        "0::/",
        {"cgroup.controllers": "memory", "memory/memory.max": f"{GiB}"},
        None,
        None,
    ),
    "files that cannot be understood": (
        "nonsense",
        {"cpu.max": "x y", "memory.max": "", "cpu/cpu.cfs_quota_us": "100"},
        None,
        None,
    ),
    "a period of zero": ("0::/", {"cpu.max": "100 0", "memory.max": "-1"}, None, None),
}


@pytest.mark.parametrize("name", CASES)
def test_the_lowest_limit_applies(name: str, tmp_path: Path) -> None:
    own, files, cores, memory_gib = CASES[name]
    if own is not None:
        (tmp_path / "proc" / "self").mkdir(parents=True)
        (tmp_path / "proc" / "self" / "cgroup").write_text(own, encoding="utf-8")
    for file, content in files.items():
        path = tmp_path / "cgroup" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    expected = Limits(cores, None if memory_gib is None else int(memory_gib * GiB))
    assert limits(tmp_path / "proc", tmp_path / "cgroup") == expected


def test_a_quota_limits_the_cores_and_leaves_one() -> None:
    own = len(os.sched_getaffinity(0))
    quotas = (None, 0.01, 1.0, own - 0.5, own + 7.0)
    assert [usable_cores(Limits(cores=quota)) for quota in quotas] == [own, 1, 1, own, own]


def test_usable_memory_is_at_most_that_of_the_machine() -> None:
    installed = installed_bytes()
    assert installed is not None
    sizes = (None, GiB, 2 * installed)
    found = [physical_bytes(Limits(memory_bytes=size)) for size in sizes]
    assert found == [installed, min(GiB, installed), installed]
