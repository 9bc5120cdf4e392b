"""Networks that encode numbers equal plain Equinox and Optax on encoded rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import optax
import pytest
from numpy.typing import NDArray
from sklearn.tree import DecisionTreeRegressor

from sweeper.config import parse
from sweeper.data.prepare import prepare
from sweeper.errors import DataError, StudyError
from sweeper.models.encoding import PiecewiseLinear
from tests.programs.conftest import STUDY, Bench, spec
from tests.programs.plain import WAYS, first_net, train, weights_only
from tests.small_studies import bent

NUMBERS = (
    "data.name=diabetes",
    "data.split.stratify=false",
    "train.loss=mse",
    "train.metrics=[]",
    "train.epochs=3",
    "model.numbers=ple",
    "model.n_bins=6",
)
TRIAL = spec(5, depth=2, width=12, activation="tanh", lr=1e-3, weight_decay=0.1)


def plain_encoding(x: NDArray[Any], edges: Any) -> NDArray[Any]:
    """Equation 1 of Gorishniy et al. 2022, number by number and bin by bin."""
    found = []
    for place, own in enumerate(edges):
        for t in range(1, len(own)):
            part = (x[:, place] - own[t - 1]) / (own[t] - own[t - 1])
            if t > 1:
                part = np.where(x[:, place] < own[t - 1], 0.0, part)
            if t < len(own) - 1:
                part = np.where(x[:, place] >= own[t], 1.0, part)
            found.append(part)
    return np.stack([*found, *x.T[len(edges) :]], axis=1)


@pytest.mark.parametrize(("way", "bins"), [("exact", "tree"), ("padded", "quantile")])
def test_training_equals_that_on_encoded_rows(
    way: str, bins: str, bench: Callable[..., Bench]
) -> None:
    study = bench(*NUMBERS, f"model.bins={bins}")
    data = study.data
    edges = data.bins[f"{bins} 6"]
    curve = study.curves([TRIAL, spec(6, **{**TRIAL.params, "lr": 3e-3})], **WAYS[way])[5]

    net = first_net(study, TRIAL)
    encoded = {n: plain_encoding(getattr(data, n), edges) for n in ("x_train", "x_val")}
    study.data = replace(data, **encoded)
    optimizer = optax.adamw(1e-3, weight_decay=0.1, mask=lambda _: weights_only(net))
    units = (data.y_scale[0] ** 2,) * 2
    expected = train(
        study, TRIAL, optimizer, lambda o, y: ((o - y) ** 2).mean(), units=units, net=net
    )
    np.testing.assert_allclose(curve, expected.rows, rtol=1e-9)


def test_edges_are_quantiles_or_splits_of_the_training_rows(bench: Callable[..., Bench]) -> None:
    data = bench(*NUMBERS).data
    quantiles, place = data.bins["quantile 6"], 2
    x = data.x_train[:, place]
    np.testing.assert_allclose(quantiles[place], np.quantile(x, np.arange(7) / 6))

    splits = bench(*NUMBERS, "model.bins=tree").data.bins["tree 6"]
    tree = DecisionTreeRegressor(max_leaf_nodes=6, random_state=0).fit(x[:, None], data.y_train)
    inner = sorted(tree.tree_.threshold[tree.tree_.feature >= 0])
    np.testing.assert_allclose(splits[place], [x.min(), *inner, x.max()])
    (one,) = bench(*NUMBERS[:-1], "model.n_bins=1", "model.bins=tree").data.bins.values()
    np.testing.assert_allclose(one[place], [x.min(), x.max()])


def test_numbers_with_few_values_have_few_bins() -> None:
    encoding = PiecewiseLinear(((0.0, 1.0), (5.0,), (0.0, 1.0, 3.0)))
    rows = np.array([[-1.0, 5.0, 2.0, 9.0], [2.0, 5.0, 5.0, 8.0]])
    assert encoding.size(4) == 4
    np.testing.assert_allclose(encoding(rows), [[-1.0, 1.0, 0.5, 9.0], [2.0, 1.0, 2.0, 8.0]])


def test_only_numbers_are_encoded(tmp_path: Path) -> None:
    lines = [f"{i * 0.37:.2f},{'ab'[i % 2]},1.0,{i}" for i in range(120)]
    (tmp_path / "t.csv").write_text("n,c,k,y\n" + "\n".join(lines), encoding="utf-8")
    table = f"data={{source='csv', path='{tmp_path / 't.csv'}', target='y'}}"
    config = parse(STUDY, tmp_path / "study.toml", [*NUMBERS[2:], table])
    data = prepare(config)
    (key,) = data.bins
    assert key == "quantile 6"
    assert [len(own) for own in data.bins[key]] == [7, 1]  # k is constant
    assert PiecewiseLinear(data.bins[key]).size(data.n_features) == 6 + 2


def test_nothing_to_encode_is_refused(tmp_path: Path) -> None:
    lines = [f"{'ab'[i % 2]},{i}" for i in range(120)]
    (tmp_path / "t.csv").write_text("c,y\n" + "\n".join(lines), encoding="utf-8")
    table = f"data={{source='csv', path='{tmp_path / 't.csv'}', target='y'}}"
    with pytest.raises(DataError, match="no column of numbers to encode"):
        prepare(parse(STUDY, tmp_path / "study.toml", [*NUMBERS[2:], table]))


def test_many_numbers_of_bins_are_refused() -> None:
    many = "search.model.n_bins={type='int', low=2, high=64}"
    with pytest.raises(StudyError, match="63 numbers of bins"):
        parse(STUDY, Path("study.toml"), [*NUMBERS, many])
    few = parse(STUDY, Path("study.toml"), [*NUMBERS, many.replace("64", "64, base=2")])
    assert few.drawn_values("model.n_bins") == (2, 4, 8, 16, 32, 64)


def test_studies_without_an_encoding_compile_what_they_always_did() -> None:
    plain = parse(STUDY, Path("study.toml")).filled(TRIAL.params)
    bins = parse(bent(STUDY, "model.n_bins=8"), Path("study.toml")).filled(TRIAL.params)
    encoded = parse(bent(STUDY, "model.numbers=ple"), Path("study.toml")).filled(TRIAL.params)
    assert not {"model.numbers", "model.n_bins", "model.bins"} & plain.structure().keys()
    assert bins.structure() == plain.structure()
    assert encoded.structure() == {**plain.structure(), "model.numbers": "ple"}
