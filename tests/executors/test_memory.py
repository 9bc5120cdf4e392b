"""How the device's memory is shared: the sum never exceeds what was requested."""

from __future__ import annotations

import pytest

from sweeper.errors import SetupError
from sweeper.executors.devices import (
    FRACTION,
    Shares,
    carried_fraction,
    check_fractions,
    fraction_variable,
    shares,
)


@pytest.mark.parametrize(
    ("fraction", "threads", "workers", "expected"),
    [
        (0.8, 2, 0, Shares(0.8, 0.0)),
        (0.8, 2, 2, Shares(0.4, 0.2)),
        (0.8, 0, 2, Shares(0.0, 0.4)),
        (1.0, 1, 0, Shares(0.88, 0.0)),  # 0.90 - 0.02 x 1
        (1.0, 1, 4, Shares(0.40, 0.10)),  # 0.90 - 0.02 x 5
        (0.8, 64, 64, Shares(0.225, 0.225 / 64)),  # a processor with many cores: 0.90 / 2
    ],
)
def test_the_parent_gets_half_and_workers_the_rest(
    fraction: float, threads: int, workers: int, expected: Shares
) -> None:
    got = shares(fraction, threads, workers)

    assert (got.parent, got.worker) == pytest.approx((expected.parent, expected.worker))


@pytest.mark.parametrize("workers", range(8))
@pytest.mark.parametrize("fraction", [0.1, 0.5, 0.8, 1.0])
def test_the_shares_never_exceed_the_device(fraction: float, workers: int) -> None:
    got = shares(fraction, 1, workers)

    assert got.parent + workers * got.worker <= min(fraction, 0.9 - 0.02 * (workers + 1)) + 1e-12


def test_exactly_one_variable_is_set() -> None:
    assert fraction_variable({}) == FRACTION
    assert fraction_variable({"XLA_CLIENT_MEM_FRACTION": "0.5"}) == "XLA_CLIENT_MEM_FRACTION"
    assert carried_fraction({"XLA_CLIENT_MEM_FRACTION": "0.5"}) == 0.5
    assert carried_fraction({}) is None


@pytest.mark.parametrize("value", ["90%", "abc", "0", "-0.5", "nan", "inf"])
@pytest.mark.parametrize("variable", [FRACTION, "XLA_CLIENT_MEM_FRACTION"])
def test_a_fraction_that_is_not_a_number_is_refused_only_if_there_are_gpus(
    variable: str, value: str
) -> None:
    environment = {variable: value}
    check_fractions(environment, ())
    assert carried_fraction(environment) is None
    with pytest.raises(SetupError) as refused:
        check_fractions(environment, ("0",))
    assert str(refused.value) == (
        f"{variable}: '{value}' is not a share of a GPU's memory; "
        "set it to a number such as 0.5, or unset it"
    )


def test_only_one_of_the_fractions_may_be_set() -> None:
    both = {FRACTION: "0.5", "XLA_CLIENT_MEM_FRACTION": "0.5"}
    check_fractions(both, ())
    check_fractions(both | {FRACTION: ""}, ("0",))
    with pytest.raises(SetupError, match=f"both {FRACTION} and .*; unset {FRACTION}"):
        check_fractions(both, ("0",))
