"""JAX settings that every study uses, whatever the environment or user code sets.

They change what a program computes, or prevent it from running. Nothing here imports JAX.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

# the general guard comes first, since setting it also sets the specific ones
PINS: Mapping[str, Any] = {
    # these raise on values that training handles itself, or run programs uncompiled
    "jax_debug_nans": False,
    "jax_debug_infs": False,
    "jax_debug_key_reuse": False,
    "jax_disable_jit": False,
    "jax_no_tracing": False,
    "jax_no_execution": False,
    "jax_check_tracer_leaks": False,
    "jax_enable_checks": False,
    "jax_error_checking_behavior_nan": "ignore",
    "jax_error_checking_behavior_divide": "ignore",
    "jax_error_checking_behavior_oob": "ignore",
    # these reject what programs do
    "jax_numpy_dtype_promotion": "standard",
    "jax_numpy_rank_promotion": "allow",
    "jax_legacy_prng_key": "allow",
    "jax_transfer_guard": None,
    "jax_transfer_guard_host_to_device": None,
    "jax_transfer_guard_device_to_device": None,
    "jax_transfer_guard_device_to_host": None,
    "jax_array_garbage_collection_guard": None,
    "jax_default_prng_impl": "threefry2x32",
    "jax_enable_custom_prng": False,
}
# other values change results; studies of edition 1 keep those that they began with
RESULT_PINS: Mapping[str, Any] = {
    "jax_default_device": None,  # studies choose their devices by execution.devices
    "jax_random_seed_offset": 0,
    "jax_threefry_partitionable": True,
    "jax_high_dynamic_range_gumbel": False,
    "jax_softmax_custom_jvp": False,
    "jax_allow_f16_reductions": True,
    "jax_disable_most_optimizations": False,
    "jax_optimization_level": "UNKNOWN",
    "jax_exec_time_optimization_effort": 0.0,
}


def pins(edition: int) -> dict[str, Any]:
    """The settings for studies of this edition."""
    return {**PINS, **(RESULT_PINS if edition > 1 else {})}


def overridden(environment: Mapping[str, str], edition: int) -> Iterator[str]:
    """Environment variables that set one of these settings to a different value."""
    for name, value in pins(edition).items():
        written = environment.get(name.upper(), "").strip()
        if written and written.lower() not in _spellings(value):
            yield f"{name.upper()}={written}"


_X64, _MATMUL = "JAX_ENABLE_X64", "JAX_DEFAULT_MATMUL_PRECISION"
# the value of execution.matmul_precision that is the same as one of JAX
_MATMUL_PRECISIONS = {
    **dict.fromkeys(("default", "bfloat16", "BF16_BF16_F32"), "default"),
    **dict.fromkeys(("high", "tensorfloat32", "TF32_TF32_F32"), "high"),
    **dict.fromkeys(("highest", "float32", "F32_F32_F32"), "highest"),
}


def ignored_precisions(
    environment: Mapping[str, str], precision: str, matmul_precision: str
) -> Iterator[tuple[str, str]]:
    """Environment variables that set another precision than the study, and what to do about each.

    `precision` and `matmul_precision` are those of the study.
    """
    is_double = precision == "float64"
    x64, matmul = (environment.get(name, "").strip() for name in (_X64, _MATMUL))
    if x64.lower() in _BOOLEANS[not is_double]:
        other = "float32" if is_double else "float64"
        yield f"{_X64}={x64}", f'write execution.precision = "{other}" instead'
    wanted = _MATMUL_PRECISIONS.get(matmul)
    if matmul and wanted != matmul_precision:
        setting = f'write execution.matmul_precision = "{wanted}" instead'
        yield f"{_MATMUL}={matmul}", setting if wanted else "unset it"


_BOOLEANS = {
    False: ("0", "false", "off", "no", "n", "f"),
    True: ("1", "true", "on", "yes", "y", "t"),
}


def _spellings(value: Any) -> tuple[str, ...]:
    """The spellings of `value` in environment variables, in lower case."""
    if isinstance(value, bool):
        return _BOOLEANS[value]
    return ("allow",) if value is None else (str(value).lower(),)
