"""A user-defined program trains as its step says, in every way of training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import sweeper
from sweeper.config import StudyConfig, parse
from sweeper.data.order import epoch_order
from sweeper.data.prepare import prepare
from sweeper.errors import StudyError
from sweeper.executors.executor import Outcome
from sweeper.export import export
from sweeper.preflight.user_program import METHODS, check_program
from sweeper.programs.build import Programs
from sweeper.programs.checkpoint import LaneFile
from sweeper.programs.data_spec import data_spec
from sweeper.programs.program import Batch, Program
from sweeper.programs.user_program import UserDefined
from sweeper.rundir import RunDir
from sweeper.scheduler.forecast import traced_structure
from sweeper.scheduler.signature import Structures
from sweeper.sweep.warm_start import describe_start, find_start
from sweeper.trial import Member, Reason, TrialSpec, words
from tests.documents import GUIDES
from tests.in_process import study_in, trained
from tests.programs.conftest import Bench, spec
from tests.programs.plain import compiled_hastily

RELATIVE = 1e-9  # float64; the orders of summation differ, and the difference grows with the steps

# a mean teacher (Tarvainen & Valpola 2017): it keeps a second model, and draws noise
OWN = """\
import equinox as eqx
import jax
import jax.numpy as jnp


class Teacher:
    def __init__(self, *, pull, copies=1, momentum=0.5):
        self.pull, self.copies, self.momentum = pull, copies, momentum

    def init(self, model, optimizer, key):
        first = optimizer.init(eqx.filter(model, eqx.is_inexact_array))
        return model, (first, Kept(model, jax.nn.relu, jnp.array(0), key))

    def step(self, model, opt_state, batch, optimizer, key):
        first, kept = opt_state

        def loss(model):
            return self._loss(model, kept.teacher, batch, key)

        value, gradients = eqx.filter_value_and_grad(loss)(model)
        updates, first = optimizer.update(gradients, first, eqx.filter(model, eqx.is_inexact_array))
        model = eqx.apply_updates(model, updates)
        blend = lambda old, new: self.momentum * old + (1 - self.momentum) * new
        arrays, rest = eqx.partition(kept.teacher, eqx.is_inexact_array)
        arrays = jax.tree.map(blend, arrays, eqx.filter(model, eqx.is_inexact_array))
        kept = Kept(eqx.combine(arrays, rest), kept.of, kept.steps + 1, kept.key)
        return model, (first, kept), value

    def evaluate(self, model, data):
        errors = jax.vmap(model)(data.x) - data.y
        return {"loss": jnp.mean(errors**2), "largest": jnp.max(jnp.abs(errors))}

    def _loss(self, model, teacher, batch, key):
        outputs = jax.vmap(model)(batch.x)
        away = 0.0
        for index in range(self.copies):
            noise = jax.random.normal(jax.random.fold_in(key, index), batch.x.shape)
            away += jnp.mean((outputs - jax.vmap(teacher)(batch.x + 0.1 * noise)) ** 2)
        return jnp.mean((outputs - batch.y) ** 2) + self.pull * away


class Kept(eqx.Module):
    teacher: eqx.Module
    of: object
    steps: jax.Array
    key: jax.Array
"""
STUDY = """\
version = 1
[study]
name = "own"
metric = "val_loss"
direction = "minimize"
n_trials = 4
seed = 3
[data]
source = "sklearn"
name = "diabetes"
[model]
depth = 1
width = 6
activation = "tanh"
[optimizer]
name = "adam"
lr = 1e-3
schedule = { name = "cosine" }
[train]
program = "own_programs:Teacher"
task = "numbers"
metrics = ["largest"]
epochs = 30
batch_size = 64
pull = 0.5
copies = 2
[search]
model.width = { type = "categorical", choices = [5, 6] }
optimizer.lr = { type = "float", low = 1e-5, high = 1e-2, log = true }
train.pull = { type = "float", low = 0.1, high = 1.0 }
[execution]
precision = "float64"
"""
TRIALS = (spec(0, width=6, lr=1e-3, pull=0.25), spec(1, width=6, lr=5e-4, pull=0.75))


def study(directory: Path, *overrides: str) -> StudyConfig:
    (directory / "own_programs.py").write_text(OWN, encoding="utf-8")
    return parse(STUDY, directory / "study.toml", overrides)


@pytest.fixture
def bench(tmp_path: Path) -> Callable[..., Bench]:
    return lambda *overrides: Bench(study(tmp_path, *overrides), tmp_path)


def exact(bench: Bench, trial: TrialSpec) -> Program:
    return Programs(data_spec(bench.config, bench.data)).exact(
        bench.config.settings_of(trial.params)
    )


@compiled_hastily()
def plain_model(bench: Bench, trial: TrialSpec, member: Member) -> list[Any]:
    """The final arrays of a trial in plain Equinox and Optax, written out."""
    config, data = bench.config, bench.data
    settings = config.settings_of(trial.params)
    program = exact(bench, trial)
    model = jax.tree.map(
        lambda leaf: jnp.asarray(leaf) if isinstance(leaf, np.ndarray) else leaf,
        program.saver.model(program.layout.init(trial.number, settings, member.replicate)),
    )
    rows = data.training_rows(member.fold)
    order = epoch_order(config.study.seed, member.replicate, 30, len(rows), 64)
    shortest = min(len(data.training_rows(fold)) for fold in range(data.n_folds or 1)) // 64
    steps = len(order) * shortest
    optimizer = optax.adam(optax.cosine_decay_schedule(settings.optimizer.lr, steps))
    pull = trial.params["pull"]

    def loss(model: Any, teacher: Any, x: Any, y: Any, key: Any) -> Any:
        outputs = jax.vmap(model)(x)
        away = 0.0
        for index in range(2):
            noise = jax.random.normal(jax.random.fold_in(key, index), x.shape)
            away += jnp.mean((outputs - jax.vmap(teacher)(x + 0.1 * noise)) ** 2)
        return jnp.mean((outputs - y) ** 2) + pull * away

    @eqx.filter_jit
    def step(model: Any, state: Any, teacher: Any, x: Any, y: Any, key: Any) -> Any:
        gradients = eqx.filter_grad(loss)(model, teacher, x, y, key)
        updates, state = optimizer.update(gradients, state)
        model = eqx.apply_updates(model, updates)
        return model, state, jax.tree.map(lambda old, new: (old + new) / 2, teacher, model)

    drawn = words(config.study.seed, "program", trial.number, member.replicate)[2:]
    key, count = jax.random.wrap_key_data(jnp.asarray(drawn)), 0
    state, teacher = optimizer.init(eqx.filter(model, eqx.is_inexact_array)), model
    for epoch in order:
        for places in epoch[:shortest]:
            x, y = data.x_train[rows[places]], data.y_train[rows[places]]
            if data.n_folds:
                x = x * data.fold_scale[member.fold] + data.fold_shift[member.fold]
            own = jax.random.fold_in(key, count)
            model, state, teacher = step(model, state, teacher, x, y, own)
            count += 1
    return jax.tree.leaves(eqx.filter(model, eqx.is_inexact_array))


def ended(bench: Bench, outcome: Outcome, trial: TrialSpec, member: int = 0) -> list[Any]:
    """The arrays of its model."""
    lane = next(lane for lane in outcome.lanes if lane.number == trial.number)
    program = exact(bench, trial)
    like = program.layout.exact_abstract(bench.config.settings_of(trial.params))
    bare = eqx.tree_at(
        lambda state: (state.optimizer, state.step), like, (None, None), is_leaf=lambda x: x is None
    )
    file = LaneFile(bench.directory / lane.checkpoint, outcome.digests[lane.checkpoint])
    state = file.lane(trial.number, bare, member)
    return jax.tree.leaves(eqx.filter(program.saver.model(state), eqx.is_inexact_array))


def assert_close(found: Sequence[Any], expected: Sequence[Any]) -> None:
    for one, other in zip(found, expected, strict=True):
        assert np.linalg.norm(one - other) <= RELATIVE * np.linalg.norm(other)


@pytest.mark.parametrize(
    "how",
    [
        pytest.param({"lane_loop": "map"}, marks=pytest.mark.slow),
        {"lane_loop": "vmap"},
        pytest.param({"switched": True}, marks=pytest.mark.slow),
    ],
    ids=["map", "vmap", "switch"],
)
def test_a_program_trains_like_plain_equinox(how: dict[str, Any], bench: Any) -> None:
    own = bench()
    trials = (*TRIALS, spec(2, width=5, lr=1e-3, pull=0.5)) if "switched" in how else TRIALS
    outcome = own.train(trials, **how)
    for trial in trials:
        assert_close(ended(own, outcome, trial), plain_model(own, trial, Member()))


@pytest.mark.slow
@pytest.mark.parametrize("several", ["study.replicates=2", "study.folds=2"])
def test_replicates_and_folds_train_like_plain_equinox(several: str, bench: Any) -> None:
    own = bench(several, *(("data.split.test=0.1",) if "folds" in several else ()))
    outcome = own.train(TRIALS, capacity=4)
    for place, member in enumerate(own.config.members):
        expected = plain_model(own, TRIALS[1], member)
        assert_close(ended(own, outcome, TRIALS[1], place), expected)


def test_a_program_resumes_from_a_checkpoint_with_its_whole_state(bench: Any) -> None:
    own = bench("train.epochs=6", "train.ema=0.9", "train.early_stop={patience=5}")
    unbroken = own.train(TRIALS)
    begun = own.train(TRIALS, epochs=(0, 2))
    outcome = own.train(TRIALS, epochs=(2, 6), after=begun)
    for resumed, whole, first in zip(outcome.lanes, unbroken.lanes, begun.lanes, strict=True):
        curve = np.concatenate([first.curve.values, resumed.curve.values])
        np.testing.assert_array_equal(curve, whole.curve.values)


def test_trials_with_the_same_structure_share_a_program(tmp_path: Path) -> None:
    config = study(tmp_path, 'search.model.activation={type="categorical",choices=["relu","elu"]}')
    assert traced_structure(config, "map") == {}  # the program calls the model directly
    structure = Structures(lambda spec: config.settings_of(spec.params), lambda _: 1, {})
    other = spec(2, width=5, lr=1e-3, pull=0.25)
    assert structure(TRIALS[0]).program == structure(TRIALS[1]).program
    assert structure(TRIALS[0]).program != structure(other).program
    assert structure(TRIALS[0]).family is None  # it is never padded
    assert config.structural == {
        "model.width": True,
        "optimizer.lr": False,
        "train.pull": False,
        "model.activation": True,
    }


def test_a_study_is_run_exported_and_continued(tmp_path: Path) -> None:
    (tmp_path / "own_programs.py").write_text(OWN, encoding="utf-8")
    short = ("train.epochs=2", "results.save_optimizer=true", "execution.strategy=exact")
    fixed = ("search={}", "study.n_trials=1")
    first = study_in(tmp_path, STUDY, *short, *fixed)
    row = trained(first).trials().iloc[0]
    assert row["state"] == "COMPLETE"
    assert row["strategy"] == "exact"
    assert {"final_val_largest", "test_largest"} <= {*row.index}
    saved = tmp_path / "saved"
    export(first.run_dir, None, 0, saved)
    card = (saved / "README.md").read_text(encoding="utf-8")
    assert "copied here: `own_programs.py`." in card and "`load.py` does not need it." in card
    loaded = sweeper.load(saved, base_dir=tmp_path)
    assert int(loaded.opt_state[1].steps) == 2 * (308 // 64)
    assert loaded.predict(np.zeros((3, 10))).shape == (3,)
    again = study_in(
        tmp_path, STUDY, *short, *fixed, "train.epochs=1", f"results.dir={tmp_path / 'again'}"
    )
    sweeper.run(again, continue_from=saved)
    export(again.run_dir, None, 0, tmp_path / "exported")
    loaded = sweeper.load(tmp_path / "exported", base_dir=tmp_path)
    assert int(loaded.opt_state[1].steps) == 3 * (308 // 64)

    other = study_in(tmp_path, STUDY, *short, *fixed, "optimizer.schedule.name=exponential")
    start = find_start(other, RunDir(tmp_path / "other"), saved, fresh=True)
    assert start is not None
    assert [*describe_start(other, start, prepare(other))] == [
        "trials of adam by own_programs:Teacher start with its weights and a fresh optimizer: "
        "the saved state is for another schedule, or other settings of the program"
    ]


WRONG = """

class Base(Teacher):
    def __init__(self, *, pull, copies):
        super().__init__(pull=pull, copies=copies)


def function(**all):
    return Teacher(pull=1.0)


class NoInit:
    def __init__(self, **all): ...
    def step(self): ...
    def evaluate(self): ...


class OneMore(Base):
    def step(self, model, opt_state, batch, optimizer, key, epoch): ...


class OnlyModel(Base):
    def init(self, model, optimizer, key):
        return model


class Larger(Base):
    def init(self, model, optimizer, key):
        return jax.tree.map(lambda a: jnp.stack([a, a]) if eqx.is_array(a) else a, model), ()


class Counts(Base):
    def init(self, model, optimizer, key):
        return model, {"n": 0}

    def step(self, model, opt_state, batch, optimizer, key):
        return model, {"n": jnp.array(opt_state["n"] + 1)}, jnp.mean(batch.y)


class Halves(Base):
    half = 0.5

    def init(self, model, optimizer, key):
        return model, {"n": self.half, "of": jax.nn.relu}

    def step(self, model, opt_state, batch, optimizer, key):
        halved = {"n": opt_state["n"] * 0.5, "of": opt_state["of"]}
        return model, halved, jnp.mean(batch.y)


class Names(Halves):
    half = "now"

    def step(self, model, opt_state, batch, optimizer, key):
        return model, {**opt_state, "n": "then"}, jnp.mean(batch.y)


class OtherFunction(Halves):
    def step(self, model, opt_state, batch, optimizer, key):
        return model, {**opt_state, "of": jax.nn.elu}, jnp.mean(batch.y)


class OtherModel(Halves):
    def init(self, model, optimizer, key):
        return eqx.tree_at(lambda model: model.scale, model, 2.0), ()


class Scaled(eqx.Module):
    linear: eqx.Module
    scale: float

    def __init__(self, in_size, out_size, key):
        self.linear, self.scale = eqx.nn.Linear(in_size, out_size, key=key), 1.0

    def __call__(self, x):
        return self.linear(self.scale * x)


class SameConstants(Halves):
    def step(self, model, opt_state, batch, optimizer, key):
        return model, dict(opt_state), jnp.mean(batch.y)

    def evaluate(self, model, data):
        return {"loss": jnp.mean(data.y), "largest": 1.0}


class Units(Base):
    def __init__(self, *, pull, copies, in_size, out_size, y_mean, y_scale):
        super().__init__(pull=pull, copies=copies)
        self.sizes = in_size, out_size
        self.y_mean, self.y_scale = y_mean, y_scale

    def evaluate(self, model, data):
        own = data.y * self.y_scale + self.y_mean
        return {"loss": jnp.mean(own), "largest": jnp.array(self.sizes[0] + 100 * self.sizes[1])}


class Vector(Base):
    def step(self, model, opt_state, batch, optimizer, key):
        return model, opt_state, batch.y[:, 0]


class Branches(Base):
    def step(self, model, opt_state, batch, optimizer, key):
        if self.pull > 0.5:
            pass
        return super().step(model, opt_state, batch, optimizer, key)


class Arrays(Base):
    def step(self, model, opt_state, batch, optimizer, key):
        import numpy

        return model, opt_state, numpy.mean(numpy.asarray(batch.y))


class Floats(Base):
    def step(self, model, opt_state, batch, optimizer, key):
        return model, opt_state, float(jnp.mean(batch.y))


class Ranges(Base):
    def step(self, model, opt_state, batch, optimizer, key):
        for _ in range(jnp.argmax(batch.y)):
            pass


class Raises(Base):
    def evaluate(self, model, data):
        raise KeyError("no such thing")


class Alone(Base):
    def evaluate(self, model, data):
        return jnp.mean(data.y)


class Other(Base):
    def evaluate(self, model, data):
        return {"loss": jnp.mean(data.y), "smallest": 1.0}


class More(Base):
    def evaluate(self, model, data):
        return {**super().evaluate(model, data), "smallest": jnp.min(data.y)}


class Rows(Base):
    def evaluate(self, model, data):
        return {"loss": jnp.mean(data.y), "largest": data.y[:, 0]}


class Leaves(Base):
    def __init__(self, *, pull, copies):
        raise SystemExit(0)


class LeavesStep(Base):
    def step(self, model, opt_state, batch, optimizer, key):
        exit(4)


class CallsBack(Base):
    def evaluate(self, model, data):
        def looked_up(loss):
            raise LookupError("no row\\nfor this loss")

        given = super().evaluate(model, data)
        like = jax.ShapeDtypeStruct((), given["loss"].dtype)
        loss = jax.pure_callback(looked_up, like, given["loss"], vmap_method="sequential")
        return {**given, "loss": loss}


class LeavesEnd(Base):
    def evaluate(self, model, data):
        raise SystemExit


class Refuses(Base):
    def step(self, model, opt_state, batch, optimizer, key):
        model, opt_state, loss = super().step(model, opt_state, batch, optimizer, key)
        return model, opt_state, eqx.error_if(loss, self.pull > 0.9, "it pulls too hard")


class Picky(Base):
    def step(self, model, opt_state, batch, optimizer, key):
        if self.copies == 3:
            raise ValueError("not three")
        return super().step(model, opt_state, batch, optimizer, key)
"""


@pytest.mark.parametrize(
    ("overrides", "key", "found", "hint"),
    [
        (["Teache"], "program", "no class 'Teache' in the module", "did you mean"),
        (
            ["Teacher", "train.pul=1.0"],
            "pul",
            "has no argument 'pul'",
            "did you mean 'train.pull'?",
        ),
        (
            ["Base", "train.momentum=0.1"],
            "momentum",
            "has no argument 'momentum'",
            "it takes pull",
        ),
        (
            ["function"],
            "program",
            "is a function, not a class",
            "write a class with init, step, evaluate",
        ),
        (["NoInit"], "program", "has no init", "write def init(self, model, optimizer, key)"),
        (["OneMore"], "program", "cannot be called with model, opt_state, batch", "def step(self"),
        (["OnlyModel"], "program", "init' returns MLP", "return model, opt_state"),
        (["Larger"], "program", "[0].weight is float64 of shape (2, 6, 10)", "the model it gets"),
        (["Counts"], "program", "['n'] is int64 of shape (), but was 0", "jnp.array(0)"),
        (["Halves"], "program", "an opt_state whose ['n'] is 0.25, but was 0.5", "jnp.array(0)"),
        (["Names"], "program", "['n'] is 'then', but was 'now'", "keep shapes and types"),
        (["OtherFunction"], "program", "an opt_state whose ['of'] is <", "keep shapes and types"),
        (
            ["OtherModel", "search={}", "model={kind='python',function='own_programs:Scaled'}"],
            "program",
            "init' returns a model whose .scale is 2.0, but was 1.0",
            "the model it gets",
        ),
        (["Vector"], "program", "float64 of shape (64,) as its loss", "the mean over examples"),
        (["Branches"], "program", "cannot see traced values (own_programs.py, line ", "jnp.where"),
        (["Arrays"], "program", "raised TracerArrayConversionError", "use jnp instead of np"),
        (["Floats"], "program", "raised ConcretizationTypeError: ", "no float(), int() or range()"),
        (["Ranges"], "program", "raised TracerIntegerConversionError", "no float(), int()"),
        (["Raises"], "program", "evaluate' raised KeyError", "fix it"),
        (["Leaves"], "program", "init' raised SystemExit: 0", "fix it"),
        (["LeavesStep"], "program", "step' raised SystemExit: 4", "fix it"),
        (
            ["LeavesEnd"],
            "program",
            "evaluate' raised SystemExit (own_programs.py, line ",
            "fix it",
        ),
        (
            ["Alone"],
            "program",
            "returns float64 of shape ()",
            'return {"loss": ..., "largest": ...}',
        ),
        (["Other"], "program", "returns loss, smallest, but not largest", 'return {"loss": ...'),
        (["More"], "program", "returns largest, loss, smallest", '["largest", "smallest"]'),
        (["Rows"], "program", "float64 of shape (64,) as largest", "return one number"),
        (
            ["Picky", 'search.train.copies={type="int",low=2,high=3}'],
            "copies",
            "with copies = 3, 'own_programs:Picky.step' raised ValueError: not three",
            "fix it",
        ),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_functions_that_do_not_compile_are_refused(
    overrides: list[str], key: str, found: str, hint: str, tmp_path: Path, bench: Any
) -> None:
    name, *others = overrides
    data = bench().data
    (tmp_path / "own_programs.py").write_text(OWN + WRONG, encoding="utf-8")
    place = tmp_path / name  # a module is imported once per directory
    place.mkdir()
    (tmp_path / "own_programs.py").rename(place / "own_programs.py")
    config = parse(STUDY, place / "study.toml", [f"train.program=own_programs:{name}", *others])
    with pytest.raises(StudyError) as refused:
        check_program(config, data)
    (problem,) = refused.value.problems
    assert problem.key in (f"train.{key}", f"search.train.{key}")
    assert found in problem.found
    assert hint in problem.hint


@pytest.mark.parametrize("switched", [False, True])
def test_a_program_that_exits_only_fails_its_trials(switched: bool, tmp_path: Path) -> None:
    (tmp_path / "own_programs.py").write_text(OWN + WRONG, encoding="utf-8")
    config = parse(STUDY, tmp_path / "study.toml", ["train.program=own_programs:LeavesStep"])
    own = Bench(config, tmp_path)
    outcome = own.trainer.train(own.work(TRIALS, switched=switched), "here", None)
    failures = [lane.failure for lane in outcome.lanes]
    assert [failure and failure.error_type for failure in failures] == ["SystemExit"] * 2


@pytest.mark.parametrize(
    "how", [{"lane_loop": "map"}, {"lane_loop": "vmap"}, {"switched": True}], ids=str
)
def test_a_trial_that_raises_an_exception_while_it_trains_fails_alone(
    how: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "own_programs.py").write_text(OWN + WRONG, encoding="utf-8")
    short = "train.program=own_programs:Refuses", "train.epochs=4"
    own = Bench(parse(STUDY, tmp_path / "study.toml", short), tmp_path)
    width = {n: 5 + n % 2 if "switched" in how else 6 for n in range(5)}
    pull = {n: 0.95 if n == 2 else 0.1 * n for n in range(5)}
    specs = [spec(n, width=width[n], lr=1e-3, pull=pull[n]) for n in range(5)]
    others = [one for one in specs if one.number != 2]
    how = {**how, "capacity": 6}

    begun = own.trainer.train(own.work(specs, epochs=(0, 2), **how), "here", None)
    outcome = own.trainer.train(own.work(specs, epochs=(2, 4), after=begun, **how), "here", None)
    alone = own.train(others, epochs=(0, 2), **how)
    expected = own.train(others, epochs=(2, 4), after=alone, **how)

    for found, wanted in ((begun, alone), (outcome, expected)):
        assert [lane.number for lane in found.lanes] == [0, 1, 2, 3, 4]
        assert found.lanes[2].failure is not None
        assert found.lanes[2].failure.reason is Reason.ERROR
        assert "it pulls too hard" in found.lanes[2].failure.error_message
        assert found.lanes[2].failure.error_type == "_EquinoxRuntimeError"
        kept = {lane.number: lane for lane in found.lanes if lane.failure is None}
        assert [*kept] == [0, 1, 3, 4]
        for lane in wanted.lanes:
            assert kept[lane.number].curve.values.tobytes() == lane.curve.values.tobytes()


@pytest.mark.parametrize(
    ("name", "reason", "of"),
    [
        ("LeavesStep", "SystemExit: 4", "exit(4)"),
        ("CallsBack", "LookupError: no row for this loss", "raise LookupError"),
    ],
)
def test_the_message_of_a_failure_begins_with_its_reason(
    name: str, reason: str, of: str, tmp_path: Path
) -> None:
    (tmp_path / "own_programs.py").write_text(OWN + WRONG, encoding="utf-8")
    config = parse(STUDY, tmp_path / "study.toml", [f"train.program=own_programs:{name}"])
    own = Bench(config, tmp_path)
    (lane,) = own.trainer.train(own.work(TRIALS[:1]), "here", None).lanes
    assert lane.failure is not None
    code = (tmp_path / "own_programs.py").read_text(encoding="utf-8").splitlines()
    (line,) = (number for number, text in enumerate(code, 1) if text.strip().startswith(of))
    first, own, trace = lane.failure.error_message.split("\n\n", 2)
    assert first == f"{reason} (own_programs.py, line {line})"
    assert lane.failure.error_type == reason.partition(":")[0]
    assert own.startswith(f'  File "{tmp_path / "own_programs.py"}", line {line}, in ')
    assert trace.startswith("Traceback (most recent call last):\n")


def test_a_class_gets_the_properties_of_the_data_that_it_names(tmp_path: Path) -> None:
    (tmp_path / "own_programs.py").write_text(OWN + WRONG, encoding="utf-8")
    for overrides, in_size in (((), 10), (("train.in_size=7",), 7)):
        named = ("train.program=own_programs:Units", *overrides)
        config = parse(STUDY, tmp_path / "study.toml", named)
        data = prepare(config)
        check_program(config, data)
        settings = config.settings_of({})
        program = Programs(data_spec(config, data)).exact(settings)
        assert isinstance(program, UserDefined)
        lane = program.lane(0, settings)
        state = program.layout.init(0, settings)
        given = program.evaluated_by_user(state, Batch(data.x_val, data.y_val), lane)
        price = np.mean(data.y_val * data.y_scale[0] + data.y_mean[0])
        np.testing.assert_allclose(given["loss"], price, rtol=1e-12)
        assert price > 100  # no scaled number
        assert given["largest"] == in_size + 100
    config = parse(STUDY, tmp_path / "study.toml", ["train.in_size=7"])
    with pytest.raises(StudyError, match="has no argument 'in_size'"):
        check_program(config, data)


def test_constants_in_the_state_are_not_refused(tmp_path: Path) -> None:
    (tmp_path / "own_programs.py").write_text(OWN + WRONG, encoding="utf-8")
    config = parse(STUDY, tmp_path / "study.toml", ["train.program=own_programs:SameConstants"])
    check_program(config, Bench(config, tmp_path).data)


def test_missing_methods_are_reported(tmp_path: Path, bench: Any) -> None:
    data = bench().data
    text = STUDY.replace("pull = 0.5\n", "").replace("train.pull", "# train.pull")
    config = parse(text, tmp_path / "study.toml")
    with pytest.raises(StudyError, match=r"train\.pull: missing, but .* needs it; write pull"):
        check_program(config, data)


def test_searched_kinds_that_a_program_cannot_train_are_refused(tmp_path: Path, bench: Any) -> None:
    data = bench().data
    kinds = "search.model.kind={type='categorical',choices=['mlp','tabm']}"
    (tmp_path / "own_programs.py").write_text(OWN, encoding="utf-8")
    config = parse(STUDY, tmp_path / "study.toml", [kinds, "model.dropout=0.1"])
    with pytest.raises(StudyError) as refused:
        check_program(config, data)
    assert [(problem.key, problem.found) for problem in refused.value.problems] == [
        (
            "search.model.kind",
            "some trials are a TabM: your own program would train its mean prediction, not its "
            "members",
        ),
        ("model.dropout", "your own program calls the model without dropout"),
    ]
    check_program(config.with_edition(5), data)


def test_the_methods_are_those_in_the_guide() -> None:
    guide = GUIDES["models-and-programs"]
    for name, given in METHODS.items():
        assert f"def {name}({', '.join(given)})" in guide


INJECTED = """\
import optax


def plain(*, lr):
    return optax.adam(lr)


def injected(*, lr):
    return optax.inject_hyperparams(optax.adam)(lr)
"""


def test_injected_hyperparameters_follow_the_schedule(tmp_path: Path, bench: Any) -> None:
    (tmp_path / "program_optimizers.py").write_text(INJECTED, encoding="utf-8")
    ended_with: dict[str, list[Any]] = {}
    for name in ("plain", "injected"):
        schedule = "schedule={name='cosine'}"
        own = bench(f"optimizer={{name='program_optimizers:{name}',{schedule}}}", "train.epochs=3")
        ended_with[name] = ended(own, own.train(TRIALS[:1]), TRIALS[0])

    assert_close(*ended_with.values())


def test_injected_hyperparameters_are_in_the_state_in_float32(tmp_path: Path, bench: Any) -> None:
    (tmp_path / "program_optimizers.py").write_text(INJECTED, encoding="utf-8")
    own = bench("optimizer={name='program_optimizers:injected'}", "execution.precision=float32")
    program, settings = exact(own, TRIALS[0]), own.config.settings_of(TRIALS[0].params)

    begun = jax.jit(program.begin)(program.init(0, settings), program.layout.lane(0, settings))

    assert jax.tree.structure(begun) == jax.tree.structure(program.layout.abstract())
