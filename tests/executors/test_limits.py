"""How much memory a program may use, and which errors say that it ran out."""

from __future__ import annotations

import errno
from pathlib import Path
from types import SimpleNamespace

import jax
import pytest

from sweeper.config import parse
from sweeper.executors.memory_fallback import (
    Limit,
    ProgramTooLargeError,
    is_out_of_memory,
    limit_on,
)
from tests.small_studies import DIGITS


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError(), True),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), True),
        (OSError(errno.ENOSPC, "No space left on device"), False),
        (RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 8 bytes."), True),
        (jax.errors.JaxRuntimeError("INTERNAL: RESOURCE_EXHAUSTED: Failed to allocate"), True),
        (jax.errors.JaxRuntimeError("INTERNAL: CUDA_ERROR_OUT_OF_MEMORY: out of memory"), True),
        (jax.errors.JaxRuntimeError("INTERNAL: an illegal memory access"), False),
        (ValueError("no RESOURCE_EXHAUSTED here"), False),
        (ProgramTooLargeError("2 MiB"), True),
    ],
)
def test_lack_of_memory_is_distinguished_from_other_errors(
    error: Exception, expected: bool
) -> None:
    assert is_out_of_memory(error) is expected


def test_a_program_larger_than_its_limit_is_refused_with_both_numbers() -> None:
    limit = Limit("cpu", 2**20, "execution.memory_limit")
    limit.check(2**20, 4)
    limit.check(None, 4)
    Limit("cpu", None).check(2**40, 4)
    with pytest.raises(
        ProgramTooLargeError,
        match=r"^its program of 4 lanes takes 3 MiB, but execution.memory_limit is 1 MiB$",
    ):
        limit.check(3 * 2**20, 4)


def test_the_limit_is_the_setting_if_the_device_reports_none() -> None:
    path = Path("study.toml")
    assert limit_on(jax.devices()[0], parse(DIGITS, path)).n_bytes is None
    limit = limit_on(jax.devices()[0], parse(DIGITS, path, ["execution.memory_limit='1.5 KiB'"]))
    assert (limit.device, limit.n_bytes, limit.whose) == ("cpu", 1536, "execution.memory_limit")


@pytest.mark.parametrize(("fraction", "advised"), [(0.8, True), (0.9, False), (1.0, False)])
def test_a_larger_share_of_a_device_is_only_advised_if_the_share_then_grows(
    fraction: float, advised: bool
) -> None:
    device = SimpleNamespace(device_kind="H200", memory_stats=lambda: {"bytes_limit": 2**30})
    settings = ("execution.workers=1", f"execution.memory_fraction={fraction}")
    hint = limit_on(device, parse(DIGITS, Path("study.toml"), settings)).hint
    assert ("execution.memory_fraction" in hint) is advised
