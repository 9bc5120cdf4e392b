"""An error in a user-defined sampler or pruner ends a study cleanly, and it can resume."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path

import pytest

import sweeper
from sweeper.config import StudyConfig, parse
from sweeper.config.user_code import load_class
from sweeper.errors import StudyError, SweeperError
from sweeper.results.events import Event, RoundStarted
from sweeper.results.read import open_results
from sweeper.results.status import ended_by, read_status
from sweeper.rundir import RunDir
from sweeper.study.ask_tell import Past, PastTrial
from sweeper.study.ask_tell import Study as OptunaStudy
from sweeper.study.limits import STOPPED, stopped_by
from sweeper.study.user_sampler import check_memory, ended_outside, guarded
from sweeper.sweep.verify import verify
from sweeper.trial import LearnedTrial, Memory, fields_of
from tests.command_line import STUDY, CommandLine
from tests.in_process import study_in
from tests.small_studies import DIGITS, bent

_MODULE = """\
import sys
from optuna.pruners import NopPruner
from optuna.samplers import RandomSampler

class Sampler(RandomSampler):
    def sample_relative(self, study, trial, space):
        if trial.number == 9:
            RELATIVE
        return super().sample_relative(study, trial, space)

    def sample_independent(self, study, trial, name, distribution):
        if trial.number == 9:
            INDEPENDENT
        return super().sample_independent(study, trial, name, distribution)

    def infer_relative_search_space(self, study, trial):
        if trial.number == 9:
            SPACE
        return super().infer_relative_search_space(study, trial)

    def before_trial(self, study, trial):
        if trial.number == 9:
            BEFORE

    def after_trial(self, study, trial, state, values):
        if trial.number == 9:
            AFTER

class Pruner(NopPruner):
    def prune(self, study, trial):
        if trial.number == 9:
            PRUNE
        return False
"""
_HOOKS = ("RELATIVE", "INDEPENDENT", "SPACE", "BEFORE", "AFTER", "PRUNE")
_OWN = ('study.sampler={name="own:Sampler"}', 'study.pruner={name="own:Pruner"}')
TEXT = bent(STUDY, *_OWN)


def module(hook: str = "", line: str = "pass") -> str:
    text = _MODULE
    for one in _HOOKS:
        text = text.replace(f"            {one}", f"            {line if one == hook else 'pass'}")
    return text


def study(directory: Path, hook: str = "", line: str = "pass"):
    directory.mkdir(exist_ok=True)
    (directory / "own.py").write_text(module(hook, line), encoding="utf-8")
    return study_in(directory, TEXT)


@pytest.mark.parametrize(
    ("hook", "line", "found"),
    [
        ("RELATIVE", "raise ValueError('no idea')", "raised ValueError: no idea (own.py, line 8)"),
        pytest.param(
            "RELATIVE",
            "sys.exit(3)",
            "raised SystemExit: 3 (own.py, line 8)",
            marks=pytest.mark.slow,
        ),
        ("RELATIVE", "return 3", "raised TypeError"),
        pytest.param(
            "INDEPENDENT",
            "sys.exit()",
            "raised SystemExit (own.py, line 13)",
            marks=pytest.mark.slow,
        ),
        ("INDEPENDENT", "return 1e9", "proposes lr = 1000000000.0, which is not in 0.0001 to 0.1"),
        pytest.param(
            "INDEPENDENT", "return float('nan')", "raised ValueError", marks=pytest.mark.slow
        ),
        pytest.param("INDEPENDENT", "return 'much'", "raised ValueError", marks=pytest.mark.slow),
        ("SPACE", "raise KeyError('lr')", "raised KeyError: 'lr' (own.py, line 18)"),
        ("BEFORE", "sys.exit('stop')", "raised SystemExit: stop (own.py, line 23)"),
        ("AFTER", "1 / 0", "raised ZeroDivisionError: division by zero (own.py, line 27)"),
        pytest.param(
            "PRUNE", "sys.exit(0)", "raised SystemExit: 0 (own.py, line 32)", marks=pytest.mark.slow
        ),
        pytest.param(
            "PRUNE",
            "raise RuntimeError",
            "raised RuntimeError (own.py, line 32)",
            marks=pytest.mark.slow,
        ),
        ("PRUNE", "study.tell(9, 1.0)", "has ended trial 9 itself"),
    ],
)
def test_an_error_of_user_code_ends_the_study_with_its_line(
    hook: str, line: str, found: str, tmp_path: Path
) -> None:
    config = study(tmp_path, hook, line)
    with pytest.raises(SweeperError) as refusal:
        sweeper.run(config)
    (problem,) = refusal.value.problems
    table = "pruner" if hook == "PRUNE" else "sampler"
    assert (refusal.value.exit_code, problem.key) == (1, f"study.{table}.name")
    assert problem.found.startswith(f"'own:{table.title()}' {found}")
    assert problem.hint == "fix it, then run the same command to resume from the last round"
    status = read_status(RunDir(config.run_dir))
    assert status.state == "failed"
    assert status.round > 0
    assert verify(RunDir(config.run_dir)).damage == (), "what was committed is published"


def test_what_a_wrapped_pruner_does_is_said_of_it(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(module(), encoding="utf-8")
    wrapping = "study.pruner={name='patient',patience=1,wrapped={name='own:Pruner'}}"
    config = study_in(tmp_path, bent(STUDY, wrapping))

    with pytest.raises(SweeperError) as raised, guarded(config, "pruner"):
        raise ValueError("no idea")
    with pytest.raises(SweeperError) as stored:
        check_memory(config, Memory({}, {"kept": {1}}))
    for error, found in (
        (raised.value, "raised ValueError: no idea"),
        (stored.value, "stores 'kept', which cannot be written"),
        (ended_outside(config, 9), "has ended trial 9 itself"),
    ):
        (problem,) = error.problems
        assert problem.key == "study.pruner.wrapped.name"
        assert problem.found.startswith(f"'own:Pruner' {found}")
    assert stopped_by(config, {STOPPED: True}) == "own:Pruner"


@pytest.mark.parametrize("hook", ["BEFORE", "AFTER", "PRUNE"])
def test_a_trial_that_a_sampler_or_pruner_adds_itself_is_refused(hook: str, tmp_path: Path) -> None:
    config = study(tmp_path, hook, "study.enqueue_trial({'lr': 0.01})")
    with pytest.raises(SweeperError) as refusal:
        sweeper.run(config)
    (problem,) = refusal.value.problems
    table = "pruner" if hook == "PRUNE" else "sampler"
    assert problem.found.startswith(f"'own:{table.title()}' has added a trial itself (enqueue")
    assert problem.hint.startswith("write them into study.enqueue of a new study, or fix it, ")
    assert verify(RunDir(config.run_dir)).damage == ()


def test_a_sampler_that_cannot_learn_from_trials_that_lack_a_setting_says_how_to_go_on() -> None:
    chosen = "study.sampler={name='optuna.samplers:BruteForceSampler'}"
    space = (
        "search={'optimizer.lr'={type='categorical',choices=[1e-3,2e-3]},"
        "'model.depth'={type='categorical',choices=[1,2]}}"
    )
    config = parse(DIGITS, Path("study.toml"), [chosen, space])
    every = OptunaStudy(config).ask(1, 0)[0].drawn
    lacking = {name: value for name, value in every.items() if name != "lr"}
    whole, partial = (
        Past(learned=[LearnedTrial(drawn, "COMPLETE", [0.5], 1)]) for drawn in (every, lacking)
    )
    assert OptunaStudy(config, whole).ask(1, 0)
    with pytest.raises(SweeperError, match="param_name mismatch") as refusal:
        OptunaStudy(config, partial).ask(1, 0)
    again = "start over with --fresh (in Python fresh=True), and without them"
    assert refusal.value.problems[0].hint.endswith(again)


_SAYING = """\
from optuna.samplers import BaseSampler

GIVEN = {"width": 8, "depth": 4, "dropout": 0.3, "lr": 0.002, "batch_size": 8, "lr or": 0}
SEEN = {}

class Saying(BaseSampler):
    def infer_relative_search_space(self, study, trial):
        return {}

    def sample_relative(self, study, trial, space):
        return {}

    def sample_independent(self, study, trial, name, distribution):
        SEEN[name] = str(distribution)
        assert all(past.params == GIVEN for past in study.trials if past.state.is_finished())
        return GIVEN[name]
"""
_SPACE = (
    'search={"model.width"={type="int",low=4,high=16,base=2},'
    '"model.depth"={type="int",low=1,high=6,step=3},'
    '"model.dropout"={type="float",low=0.0,high=0.5,step=0.1},'
    '"train.batch_size"={type="int",low=8,high=32,log=true},'
    '"optimizer.lr"={type="float",low=1e-3,high=0.1,log=true,or=[0.5]}}'
)


def test_a_sampler_draws_values_in_the_units_of_the_study_file(tmp_path: Path) -> None:
    given = (
        "study.n_trials=2",
        "train.epochs=1",
        "schedule.parallel=1",
        "study.enqueue=[]",
        _SPACE,
    )
    text = bent(STUDY, 'study.sampler={name="saying:Saying"}', *given)
    (tmp_path / "saying.py").write_text(_SAYING, encoding="utf-8")

    config = study_in(tmp_path, text)
    sweeper.run(config)

    sampler = load_class("saying:Saying", config.base_dir)
    seen = sys.modules[sampler.__module__].SEEN
    assert {name: said.partition("(")[0] for name, said in seen.items()} == {
        "width": "CategoricalDistribution",
        "depth": "IntDistribution",
        "dropout": "FloatDistribution",
        "batch_size": "IntDistribution",
        "lr": "FloatDistribution",
        "lr or": "CategoricalDistribution",
    }
    assert "high=4" in seen["depth"]
    assert "step=3" in seen["depth"]
    given = {"width": 8, "depth": 4, "dropout": 0.3, "batch_size": 8, "lr": 0.002}
    for told in open_results(config.run_dir).trials()["params_json"]:
        assert json.loads(told) == given


_KEEPING = """\
from optuna.samplers import RandomSampler

class Keeping(RandomSampler):
    def __init__(self, kept):
        super().__init__()
        self._kept = {"infinity": float("inf"), "set": {1}, "text": "a"}[kept]

    def before_trial(self, study, trial):
        study._storage.set_trial_system_attr(trial._trial_id, "kept", self._kept)
"""


@pytest.mark.parametrize(
    ("kept", "why"),
    [
        ("infinity", "Out of range float values are not JSON compliant"),
        ("set", "Object of type set is not JSON serializable"),
    ],
)
def test_what_a_sampler_stores_must_be_json(kept: str, why: str, tmp_path: Path) -> None:
    from sweeper.study.ask_tell import Study

    (tmp_path / "keeping.py").write_text(_KEEPING, encoding="utf-8")
    chosen = f"study.sampler={{name='keeping:Keeping',kept='{kept}'}}"
    study = Study(study_in(tmp_path, bent(STUDY, chosen, "study.enqueue=[]")))
    study.ask(1, 0)
    with pytest.raises(SweeperError) as refusal:
        study.take_recorded()
    (problem,) = refusal.value.problems
    assert problem.key == "study.sampler.name"
    # Python 3.13 adds the value
    assert problem.found.startswith(
        f"'keeping:Keeping' stores 'kept', which cannot be written to the ledger as JSON ({why}"
    )


def test_a_study_resumes_once_its_sampler_is_fixed(tmp_path: Path, command: CommandLine) -> None:
    """As if it had never been broken: nothing that was committed is lost or repeated."""
    command.write(TEXT)
    (tmp_path / "own.py").write_text(module("BEFORE", "sys.exit(0)"), encoding="utf-8")
    broken = command("run", "study.toml")
    assert broken.returncode == 1
    (line,) = [one for one in broken.stderr.splitlines() if "own:Sampler" in one]
    told = "'own:Sampler' raised SystemExit: 0 (own.py, line 23); fix it, then run the same command"
    assert told in line
    assert "Traceback" not in broken.stderr
    committed = open_results(command.run_dir.root).trials()

    (tmp_path / "own.py").write_text(module(), encoding="utf-8")
    went_on = command("run", "study.toml")
    assert went_on.returncode == 0, went_on.stderr
    assert "study.sampler.name was own.py as it was when the study began and is another now" in (
        " ".join(went_on.stderr.split())
    )
    rows = open_results(command.run_dir.root).trials()
    assert len(rows) == 12
    told = ["value", "params_json", "finished_at"]
    known, now = (frame.set_index("trial_number").sort_index() for frame in (committed, rows))
    assert now.loc[known.index, told].equals(known[told])

    whole = study(tmp_path / "whole")
    sweeper.run(whole)
    unbroken = open_results(whole.run_dir).trials()
    assert rows[told[:-1]].equals(unbroken[told[:-1]])


def test_other_changed_code_is_still_refused(tmp_path: Path) -> None:
    text = bent(STUDY, *_OWN, 'train.metrics=["own:spread"]', "study.n_trials=1", "search={}")
    spread = "import jax.numpy as jnp\ndef spread(outputs, y):\n    return jnp.mean(outputs)\n"
    (tmp_path / "own.py").write_text(spread + module(), encoding="utf-8")
    sweeper.run(study_in(tmp_path, text))
    with (tmp_path / "own.py").open("a") as file:
        file.write("# more\n")
    with pytest.raises(StudyError) as refusal:
        sweeper.run(study_in(tmp_path, text))
    assert [problem.key for problem in refusal.value.problems] == ["train.metrics"]


def test_plan_reports_errors_of_a_sampler(tmp_path: Path, command: CommandLine) -> None:
    command.write(bent(TEXT, "schedule.parallel=12"))
    (tmp_path / "own.py").write_text(module("SPACE", "raise OSError"), encoding="utf-8")
    shown = command("plan", "study.toml")
    assert (shown.returncode, shown.stdout) == (1, "")
    assert "'own:Sampler' raised OSError (own.py, line 18)" in shown.stderr
    assert "Traceback" not in shown.stderr


_STOPPING = """\
from optuna.samplers import RandomSampler

class Stopping(RandomSampler):
    def __init__(self, hook):
        super().__init__()
        self._hook = hook

    def before_trial(self, study, trial):
        if self._hook == "before" and trial.number == 5:
            study.stop()

    def after_trial(self, study, trial, state, values):
        if self._hook == "after" and trial.number == 3:
            study.stop()
"""


@pytest.mark.parametrize("hook", ["before", "after"])
def test_a_sampler_may_end_the_study(
    hook: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It trains what was proposed before, and stays ended if it is resumed."""
    prepared: list[Path] = []
    ahead = "sweeper.sweep.planning.prepare_classes"
    monkeypatch.setattr(ahead, lambda config, *_: prepared.append(config.run_dir))
    (tmp_path / "stopping.py").write_text(_STOPPING, encoding="utf-8")
    chosen = f"study.sampler={{name='stopping:Stopping', hook='{hook}'}}"
    config = study_in(tmp_path, bent(STUDY, chosen, "study.enqueue=[]", "schedule.parallel=2"))
    ended = sweeper.run(config)
    again = sweeper.run(config)

    assert len(prepared) == 1, "the second session compiles nothing ahead"
    numbers = sorted(open_results(config.run_dir).trials()["trial_number"])
    assert numbers == [*range(len(numbers))]
    assert len(numbers) == 6 if hook == "before" else 4 <= len(numbers) < 12
    for status in (ended, again, read_status(RunDir(config.run_dir))):
        assert (status.state, status.round) == ("finished", ended.round)
        assert status.stopped_by == "stopping:Stopping"
        assert status.counts["WAITING"] == status.counts["RUNNING"] == 0
        message = (
            "ended by 'stopping:Stopping', which called study.stop: it proposes no more trials"
        )
        assert ended_by(status) == message
    with pytest.raises(StudyError, match="the study was ended by 'stopping:Stopping'"):
        sweeper.command("enqueue", str(config.run_dir), "--set", "lr=0.01")


def test_a_study_that_its_sampler_ends_has_the_same_rows_if_interrupted(tmp_path: Path) -> None:
    (tmp_path / "stopping.py").write_text(_STOPPING, encoding="utf-8")
    chosen = "study.sampler={name='stopping:Stopping', hook='after'}"
    text = bent(STUDY, chosen, "study.enqueue=[]", "schedule.parallel=2")
    whole, parts = (study_in(tmp_path, text, f"results.dir={tmp_path / n}") for n in "ab")
    sweeper.run(whole)
    run_by_rounds(parts)
    assert read_status(RunDir(parts.run_dir)).stopped_by == "stopping:Stopping"
    columns = ["trial_number", "value", "params_json"]
    one, other = (open_results(config.run_dir).trials()[columns] for config in (whole, parts))
    assert one.equals(other)


def run_by_rounds(config: StudyConfig) -> None:
    """Run a study to its end in sessions of one round."""
    for _ in range(20):
        stop = threading.Event()

        def after_this_round(event: Event, stop: threading.Event = stop) -> None:
            if isinstance(event, RoundStarted):
                stop.set()

        if sweeper.run(config, stop=stop, observer=after_this_round).state == "finished":
            return


_REMEMBERING = """\
import numpy as np
from optuna.pruners import NopPruner
from optuna.samplers import RandomSampler

class Counting(NopPruner):
    def __init__(self):
        self._count = 0

    def prune(self, study, trial):
        self._count += 1
        asked = study.user_attrs.get("asked", 0) + 1
        study.set_user_attr("asked", asked)
        return self._count > 1 or asked % 5 == 0

class Noting(RandomSampler):
    def before_trial(self, study, trial):
        kept = {trial.number: (trial.number, 1)}
        study.set_user_attr("kept", kept)
        study.set_user_attr("number", np.float32(trial.number))
        study._storage.set_trial_user_attr(trial._trial_id, "kept", kept)
        study._storage.set_trial_system_attr(trial._trial_id, "kept", kept)
"""


def test_a_pruner_remembers_what_it_stores_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "remembering.py").write_text(_REMEMBERING, encoding="utf-8")
    text = bent(STUDY, "study.pruner={name='remembering:Counting'}")
    whole, parts = (study_in(tmp_path, text, f"results.dir={tmp_path / n}") for n in "ab")
    sweeper.run(whole)
    run_by_rounds(parts)
    columns = ["trial_number", "state", "value", "params_json"]
    one, other = (open_results(config.run_dir).trials()[columns] for config in (whole, parts))
    assert {*one["state"]} == {"COMPLETE", "PRUNED"}
    assert one.equals(other)


def test_what_a_sampler_stores_is_read_as_after_a_resume(tmp_path: Path) -> None:
    (tmp_path / "remembering.py").write_text(_REMEMBERING, encoding="utf-8")
    config = study_in(tmp_path, bent(STUDY, "study.sampler={name='remembering:Noting'}"))
    begun = OptunaStudy(config)
    (spec,) = begun.ask(1, 0)
    recorded = json.loads(json.dumps(fields_of(begun.take_recorded())))
    past = PastTrial(spec, (), recorded["trials"]["0"], None, ())
    resumed = OptunaStudy(config, Past([past], recorded["study"]))
    for study_ in (begun._study, resumed._study):
        (trial,) = study_.trials
        expected = {"kept": {"0": [0, 1]}}
        assert study_.user_attrs == {**expected, "number": 0.0}
        assert trial.user_attrs == expected
        assert trial.system_attrs["kept"] == expected["kept"]


def test_brute_force_ends_with_the_space(tmp_path: Path) -> None:
    space = (
        "search={'optimizer.lr'={type='categorical',choices=[1e-3,2e-3,3e-3]},"
        "'optimizer.weight_decay'={type='categorical',choices=[0.0,1e-4]}}"
    )
    chosen = "study.sampler={name='optuna.samplers:BruteForceSampler'}"
    config = study_in(tmp_path, bent(STUDY, chosen, space, "study.enqueue=[]", "train.epochs=1"))
    status = sweeper.run(config)
    assert (status.state, status.stopped_by) == ("finished", "optuna.samplers:BruteForceSampler")
    params = open_results(config.run_dir).trials()["params_json"]
    assert len({*params}) == 6


_HOLDING = """\
from functools import partial

import numpy as np
from optuna.samplers import BaseSampler, RandomSampler

class Helper:
    __slots__ = ("rng",)

    def __init__(self):
        self.rng = np.random.default_rng()

class Holding(BaseSampler):
    def __init__(self, place):
        if place == "direct and in a list":
            self._rng = np.random.default_rng()
            self._held = [self._rng]
        elif place == "sampler":
            self._held = [RandomSampler()]
        else:
            rng = Helper().rng
            held = {"list": rng, "dict": {"lr": rng}, "object": Helper()}
            held |= {"method": rng.uniform, "partial": partial(type(rng).uniform, rng)}
            self._held = [held[place]]

    def infer_relative_search_space(self, study, trial):
        return {}

    def sample_relative(self, study, trial, space):
        return {}

    def sample_independent(self, study, trial, name, distribution):
        held = self._held[0]
        if isinstance(held, RandomSampler):
            return held.sample_independent(study, trial, name, distribution)
        if callable(held):
            return held(distribution.low, distribution.high)
        rng = held[name] if isinstance(held, dict) else getattr(held, "rng", held)
        return rng.uniform(distribution.low, distribution.high)

class Direct(Holding):
    def __init__(self):
        self._rng = np.random.default_rng()

    def sample_independent(self, study, trial, name, distribution):
        return self._rng.uniform(distribution.low, distribution.high)
"""
_LR = "search={'optimizer.lr'={type='float',low=1e-3,high=0.1}}"


def drawn_by(directory: Path, chosen: str) -> list[object]:
    (directory / "holding.py").write_text(_HOLDING, encoding="utf-8")
    text = bent(STUDY, f"study.sampler={{name='holding:{chosen}}}", "study.enqueue=[]", _LR)
    return [spec.drawn["lr"] for spec in OptunaStudy(study_in(directory, text)).ask(3, 0)]


@pytest.mark.parametrize("place", ["list", "dict", "object", "sampler", "method", "partial"])
def test_generators_in_containers_and_objects_are_seeded(place: str, tmp_path: Path) -> None:
    first = drawn_by(tmp_path, f"Holding',place='{place}'")
    assert drawn_by(tmp_path, f"Holding',place='{place}'") == first
    assert len({*first}) == 3


def test_generators_that_are_attributes_keep_their_seeds(tmp_path: Path) -> None:
    first = drawn_by(tmp_path, "Holding',place='direct and in a list'")
    assert first == drawn_by(tmp_path, "Direct'")
