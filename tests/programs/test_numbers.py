"""Networks that encode numbers equal plain Equinox and Optax on encoded rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from numpy.typing import NDArray
from scipy.stats import kstest
from sklearn.tree import DecisionTreeRegressor

from sweeper.config import parse
from sweeper.data.prepare import prepare
from sweeper.errors import DataError, StudyError
from sweeper.models.encoding import PeriodicShape, PiecewiseLinear
from sweeper.programs.build import Programs
from sweeper.programs.data_spec import data_spec
from sweeper.programs.program import State
from sweeper.scheduler.cost import n_parameters
from sweeper.scheduler.forecast import DataSizes, workload_of
from sweeper.trial import TrialSpec
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


def plain_encoding(x: NDArray[Any], edges: Any, *, open_ended: bool) -> NDArray[Any]:
    """Equation 1 of Gorishniy et al. 2022, number by number and bin by bin.

    Unless it is `open_ended`, of numbers that are moved into the range of the edges.
    """
    if not open_ended:
        ends = np.array([(own[0], own[-1]) for own in edges]).T
        x = np.concatenate([x[:, : len(edges)].clip(*ends), x[:, len(edges) :]], axis=1)
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


@pytest.mark.parametrize(
    ("way", "bins", "edition"), [("exact", "tree", 5), ("padded", "quantile", 4)]
)
def test_training_equals_that_on_encoded_rows(
    way: str, bins: str, edition: int, bench: Callable[..., Bench]
) -> None:
    study = bench(*NUMBERS, f"model.bins={bins}", f"edition={edition}")
    data = study.data
    edges = data.bins[f"{bins} 6"]
    curve = study.curves([TRIAL, spec(6, **{**TRIAL.params, "lr": 3e-3})], **WAYS[way])[5]

    net = first_net(study, TRIAL)
    encoded = {
        name: plain_encoding(getattr(data, name), edges, open_ended=edition < 5)
        for name in ("x_train", "x_val")
    }
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
    rows = np.array([[0.5, 5.0, 2.0, 9.0], [1.0, 5.0, 3.0, 8.0]])
    assert encoding.size(4) == 4
    np.testing.assert_allclose(encoding(rows), [[0.5, 1.0, 0.5, 9.0], [1.0, 1.0, 1.0, 8.0]])


@pytest.mark.parametrize("bins", ["quantile", "tree"])
def test_bins_are_wide_enough_for_a_finite_encoding(bins: str, tmp_path: Path) -> None:
    """Of numbers that are not scaled, half of which differ by less than the precision divides."""
    numbers = [*([0.0] * 30), *([1e-39] * 30), *np.linspace(1.0, 2.0, 60)]
    lines = [f"{number!r},{i % 60}" for i, number in enumerate(map(float, numbers))]
    (tmp_path / "t.csv").write_text("n,y\n" + "\n".join(lines), encoding="utf-8")
    table = f"data={{source='csv',path='{tmp_path / 't.csv'}',target='y',scale='none'}}"
    overrides = [*NUMBERS[2:], f"model.bins={bins}", table, "execution.precision=float32"]
    data = prepare(parse(STUDY, tmp_path / "study.toml", overrides))

    (edges,) = data.bins.values()
    assert len(edges[0]) > 3
    assert np.isfinite(PiecewiseLinear(edges)(data.x_train)).all()
    assert edges[0] == tuple(sorted(edges[0]))


def test_numbers_beyond_the_training_rows_count_as_their_ends_unless_open_ended() -> None:
    edges = ((0.0, 1.0), (0.0, 1.0, 3.0))
    beyond, ends = np.array([[-1.0, -2.0], [2.0, 5.0]]), np.array([[0.0, 0.0], [1.0, 3.0]])
    encoding = PiecewiseLinear(edges)
    np.testing.assert_array_equal(encoding(beyond), encoding(ends))
    as_published = PiecewiseLinear(edges, open_ended=True)(beyond)
    np.testing.assert_allclose(as_published, [[-1.0, -2.0, 0.0], [2.0, 1.0, 2.0]])


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


@pytest.mark.parametrize(
    ("searched", "bins"),
    [
        ("n_bins={type='categorical', choices=[2, 3]}", ["quantile 2", "quantile 3", "quantile 6"]),
        ("bins={type='categorical', choices=['tree']}", ["tree 6", "quantile 6"]),
        ("numbers={type='categorical', choices=['linear', 'plr']}", ["quantile 6"]),
    ],
)
def test_bins_are_also_those_of_the_file_which_checks_use(searched: str, bins: list[str]) -> None:
    kinds = "search.model.kind={type='categorical', choices=['mlp', 'tabm']}"
    own = (*NUMBERS, "model.bins=quantile")
    config = parse(STUDY, Path("study.toml"), [*own, f"search.model.{searched}", kinds])
    data = prepare(config)
    assert [*data.bins] == bins
    assert Programs(data_spec(config, data)).n_parameters(config.settings_of({}))


def test_studies_without_an_encoding_compile_what_they_always_did() -> None:
    plain = parse(STUDY, Path("study.toml")).settings_of(TRIAL.params)
    bins = parse(bent(STUDY, "model.n_bins=8"), Path("study.toml")).settings_of(TRIAL.params)
    encoded = parse(bent(STUDY, "model.numbers=ple"), Path("study.toml")).settings_of(TRIAL.params)
    names = "numbers", "n_bins", "bins", "n_frequencies", "frequency_scale", "embedding_size"
    assert not {f"model.{name}" for name in names} & plain.structure().keys()
    assert "model.frequency_scale" not in plain.traced()
    assert bins.structure() == plain.structure()
    assert encoded.structure() == {**plain.structure(), "model.numbers": "ple"}


PERIODIC = (
    *NUMBERS[:5],
    "model.numbers=plr",
    "model.n_frequencies=3",
    "model.embedding_size=4",
    "model.frequency_scale=0.5",
)
PLR_TABM = ("model={kind='tabm', ensemble_size=3, depth=1, width=4}", *PERIODIC)


def embedded(net: Any, x: Any) -> Any:
    """Section 3.4 of the paper, number by number: sines and cosines, linear, ReLU."""
    parts = []
    for place, (c, weight, bias) in enumerate(zip(*net, strict=True)):
        v = 2 * jnp.pi * c * x[place]
        parts.append(jax.nn.relu(weight @ jnp.concatenate([jnp.sin(v), jnp.cos(v)]) + bias))
    return jnp.concatenate([*parts, x[len(net[0]) :]])


class PlainPeriodic(eqx.Module):
    """Embeddings of numbers, then linear layers with an activation between."""

    embedding: tuple[Any, Any, Any]
    net: Any

    def __call__(self, x: Any) -> Any:
        return self.net(embedded(self.embedding, x))


def of_embedding(model: Any) -> tuple[Any, Any, Any]:
    linear = model.embedding.linear
    leaves = model.embedding.frequencies, linear.weight, linear.bias
    return tuple(map(jnp.asarray, leaves))  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("way", "more"),
    [
        pytest.param("exact", ("data.name=diabetes",), marks=pytest.mark.slow),
        ("padded", ("data.name=diabetes", "optimizer.decay={other=true}")),
        pytest.param(
            *("vmap padded", ("data.name=iris", "train.loss=cross_entropy")),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_training_equals_that_of_plain_periodic_embeddings(
    way: str, more: tuple[str, ...], bench: Callable[..., Bench]
) -> None:
    study = bench(*PERIODIC, *more)
    data = study.data
    others = spec(6, **{**TRIAL.params, "lr": 3e-3})
    side_by_side = {"lane_loop": "vmap", "padded_to": (24, 3)}
    how = {**WAYS, "vmap padded": side_by_side}[way]
    curve = study.curves([TRIAL, others], **how)[5]

    first = begun(study, TRIAL)
    net = PlainPeriodic(of_embedding(first), first_net(study, TRIAL))
    arrays = eqx.filter(net, eqx.is_inexact_array)
    # the weights of linear layers decay, unless the study says otherwise
    mask = eqx.tree_at(lambda tree: tree.embedding[1], weights_only(net), replace=True)
    mask = eqx.tree_at(lambda tree: tree.embedding[0], mask, replace=False)
    mask = eqx.tree_at(lambda tree: tree.embedding[2], mask, replace=False)
    if "other=true" in str(more):
        mask = jax.tree.map(lambda _: True, arrays)
    optimizer = optax.adamw(1e-3, weight_decay=0.1, mask=lambda _: mask)

    def loss(outputs: Any, y: Any) -> Any:
        if "iris" in str(more):
            return optax.softmax_cross_entropy_with_integer_labels(outputs, y).mean()
        return ((outputs - y) ** 2).mean()

    units = (1.0, 1.0) if "iris" in str(more) else (data.y_scale[0] ** 2,) * 2
    expected = train(study, TRIAL, optimizer, loss, units=units, net=net)
    np.testing.assert_allclose(curve, expected.rows, rtol=1e-9)


def begun(study: Bench, trial: TrialSpec) -> Any:
    """The model of a trial alone before its first step."""
    settings = study.config.settings_of(trial.params)
    program = Programs(data_spec(study.config, study.data)).exact(settings)
    return program.saver.model(program.layout.init(trial.number, settings))


@pytest.mark.slow
def test_a_padded_tabm_with_embeddings_equals_the_trial_alone_and_resumes(
    bench: Callable[..., Bench],
) -> None:
    study = bench(*PLR_TABM)
    curve = study.curves([TRIAL])[5]
    how = {"padded_to": (24, 3), "run_widths": (16, 24)}

    padded = study.curves([TRIAL, spec(6, **{**TRIAL.params, "width": 20})], **how)

    np.testing.assert_allclose(padded[5], curve, rtol=1e-9)
    first = study.train([TRIAL], **how, epochs=(0, 1))
    second = study.train([TRIAL], **how, epochs=(1, 3), after=first)
    for lane in second.lanes:
        assert lane.curve.values.tobytes() == padded[5][1:].tobytes()


def test_members_of_a_tabm_take_the_embedding_of_plain_equinox(
    bench: Callable[..., Bench],
) -> None:
    study = bench(*PLR_TABM)
    model, rows = begun(study, TRIAL), study.data.x_val[:5]
    plain = jax.vmap(lambda x: embedded(of_embedding(model), x))(jnp.asarray(rows))
    without = eqx.tree_at(lambda m: m.embedding, model, None, is_leaf=lambda m: m is None)

    np.testing.assert_allclose(model.of_members(rows), without.of_members(plain), rtol=1e-12)


def test_frequencies_are_normal_and_weights_uniform_at_first() -> None:
    shape = PeriodicShape(n_numbers=40, n_frequencies=50, embedding_size=8)
    frequencies, weight, bias = shape.initial(np.random.default_rng(0), 0.25)

    assert frequencies.shape == (40, 50)
    assert kstest(frequencies.ravel() / 0.25, "norm").pvalue > 0.01
    for drawn in (weight, bias):
        assert kstest(drawn.ravel() * 10, "uniform", (-1, 2)).pvalue > 0.01  # sqrt(2 * 50)


def test_the_scale_of_frequencies_changes_weights_and_no_program() -> None:
    search = "search.model.frequency_scale={type='float', low=0.01, high=1.0}"
    config = parse(STUDY, Path("study.toml"), [*PERIODIC, search])
    one, other = (
        config.settings_of({**TRIAL.params, "frequency_scale": scale}) for scale in (0.1, 0.2)
    )
    assert one.structure() == other.structure()
    assert one.traced() == other.traced()
    assert not config.structural["model.frequency_scale"]
    data = prepare(config)
    programs = Programs(data_spec(config, data))
    drawn = [programs.exact(each).init(0, each).model[""] for each in (one, other)]
    model = programs.exact(one).saver.model
    first, second = (model(State({"": each}, None, np.zeros(()))) for each in drawn)
    np.testing.assert_allclose(2 * first.embedding.frequencies, second.embedding.frequencies)
    np.testing.assert_array_equal(first.layers[0].weight, second.layers[0].weight)


def test_plan_counts_the_parameters_of_embeddings(bench: Callable[..., Bench]) -> None:
    for more in (PERIODIC, PLR_TABM):
        study = bench(*more)
        settings = study.config.settings_of(TRIAL.params)
        programs = Programs(data_spec(study.config, study.data))
        sizes = DataSizes(10, 1, 300, 88, n_numbers=10)
        work = workload_of(study.config, settings, sizes, {})
        assert n_parameters(12, 2, work) == programs.n_parameters(settings)


def test_nothing_to_embed_is_refused(tmp_path: Path) -> None:
    lines = [f"{'ab'[i % 2]},{i}" for i in range(120)]
    (tmp_path / "t.csv").write_text("c,y\n" + "\n".join(lines), encoding="utf-8")
    table = f"data={{source='csv', path='{tmp_path / 't.csv'}', target='y'}}"
    with pytest.raises(DataError, match="no column of numbers to encode"):
        prepare(parse(STUDY, tmp_path / "study.toml", [*PERIODIC[2:], table]))
