"""A study's forecast for its data and device, and the classes that it is certain to need."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import jax

from sweeper.config import StudyConfig
from sweeper.data.dataset import Dataset
from sweeper.data.files import find_file
from sweeper.errors import FRESH, Problem, StudyError, listed
from sweeper.executors.claims import devices_of, n_devices
from sweeper.files import read_json
from sweeper.models.encoding import PiecewiseLinear
from sweeper.programs.build import Programs
from sweeper.programs.data_spec import data_spec, n_embedded
from sweeper.scheduler.capacity import LaneLoop
from sweeper.scheduler.classes import LiveTrial, Policy, ProgramClass
from sweeper.scheduler.cost import CostModel, shipped
from sweeper.scheduler.forecast import (
    REST,
    DataSizes,
    Family,
    Forecast,
    digest_of_rest,
    forecast,
    traced_structure,
)
from sweeper.scheduler.plan import plan_round
from sweeper.scheduler.policy import lane_loop_of, policy_of
from sweeper.scheduler.signature import Structures, short_hash
from sweeper.study.limits import n_proposals
from sweeper.study.rungs import rungs_of
from sweeper.sweep.feasibility import Feasibility
from sweeper.sweep.session.reconcile import format_setting
from sweeper.sweep.session.session import Session
from sweeper.trial import Scalar, TrialSpec

# classes for fewer trials than this may turn out not to be needed
_LIKELY = 3.0
# tables of a study whose settings do not affect its forecast, with a few exceptions
_WITHOUT_EFFECT = ("edition", "execution", "results", "study")


def make_forecast(
    config: StudyConfig,
    data: Dataset,
    recorded: Forecast | None,
    given: Forecast | None = None,
) -> Forecast:
    """The forecast of a study on the device of this process.

    Uses a `given` one, or the `recorded` one if it still fits, since a study is planned once.
    """
    lane_loop = lane_loop_of(config, jax.default_backend())
    if given is not None:
        return given
    if recorded is not None and recorded.lane_loop == lane_loop:
        return recorded
    return forecast(
        config,
        data_sizes(config, data),
        costs_of(config),
        lane_loop,
        traced_structure(config, lane_loop),
        n_trials=n_proposals(config),
        devices=n_devices(config),
    )


def data_sizes(config: StudyConfig, data: Dataset) -> DataSizes:
    """The properties of the data that affect the cost and the memory of a trial."""
    encoded = {
        name: PiecewiseLinear(edges).size(data.n_features) for name, edges in data.bins.items()
    }
    return DataSizes(
        in_size=data.n_features,
        out_size=data.out_size,
        train_rows=data.train_rows,
        val_rows=data.val_rows,
        encoded=encoded,
        n_numbers=n_embedded(config, data),
    )


def plan_digests(config: StudyConfig, data: Dataset, forecast: Mapping[str, Any]) -> dict[str, str]:
    """Digests of the inputs of a study's forecast, and of `forecast` itself, as JSON.

    The number of trials, and how many train at a time, are not among them: a plan remains valid if
    a study gets more trials.
    """
    others = len(config.members), config.keeps is not None, config.execution.precision
    settings = {k: v for k, v in config.canonical().items() if k not in _WITHOUT_EFFECT}
    del settings["schedule"]["parallel"]
    lane_loop = lane_loop_of(config, jax.default_backend())
    return {
        "study": short_hash(settings, *others),
        "data": short_hash(asdict(_sizes_of_first_fold(config, data))),
        "device": short_hash(lane_loop, n_devices(config), costs_of(config).as_dict()),
        "forecast": short_hash(forecast),
    }


def _sizes_of_first_fold(config: StudyConfig, data: Dataset) -> DataSizes:
    """The sizes that plans are for; earlier versions counted the rows of the first fold."""
    train, val = data.rows_of_folds[0]
    return replace(data_sizes(config, data), train_rows=train, val_rows=val)


def read_plan(path: Path, config: StudyConfig, data: Dataset) -> Forecast:
    """The forecast in a file that `plan --json` wrote for this study, data and device.

    The rest of the file is not read, but must be as it was written.

    Raises:
        StudyError: it is not such a file, was written for something else, or was edited.
    """
    hint = "write it again with `python -m sweeper plan STUDY --json > plan.json`"
    try:
        plan = read_json(path)
        written = dict[str, str](plan["digests"])
        digests = plan_digests(config, data, plan["forecast"])
        # the files of earlier versions have none
        digests |= {name: digest_of_rest(plan) for name in written if name == REST}
        changed = [name for name, digest in digests.items() if written.get(name) != digest]
        read = None if changed else Forecast.from_dict(plan["forecast"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        found = f"not a plan that this version can read ({type(error).__name__}: {error})"
        raise StudyError(Problem(str(path), "", found, hint)) from error
    if read is None:
        found = f"{listed(changed)} changed since it was written"
        raise StudyError(Problem(str(path), "", found, hint))
    return read


def costs_of(config: StudyConfig) -> CostModel:
    """The cost constants that the study names, or the built-in ones.

    Raises:
        DataError: the file is missing.
        StudyError: it does not contain such constants.
    """
    name = config.execution.costs
    if name is None:
        return shipped(jax.default_backend())
    path = find_file(config, name, "execution.costs", ".json")
    try:
        return CostModel.from_dict(read_json(path)["model"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        found = f"{path.name} does not contain a cost model ({error})"
        hint = "write it with `python -m sweeper calibrate`"
        raise StudyError(config.problem("execution.costs", found, hint)) from error


def idle_costs(config: StudyConfig, sessions: Sequence[Mapping[str, Any]]) -> str | None:
    """A message if the lattice was planned with other costs than this study names; or None."""
    forecast = sessions[-1]["forecast"]
    planned = next(past["study"] for past in sessions if past.get("forecast") == forecast)
    before, now = planned.get("execution", {}).get("costs"), config.execution.costs
    if before == now:
        return None
    was, is_now = format_setting(before), format_setting(now)
    return (
        f"execution.costs was {was} when the lattice was planned and is {is_now} now, which has no "
        f"effect: a study is planned once; to plan it again, start over with {FRESH}"
    )


def structures(config: StudyConfig, programs: Programs, lane_loop: LaneLoop) -> Structures:
    """The structure of each trial of a study on its data."""
    return Structures(
        lambda spec: config.settings_of(spec.params),
        programs.n_parameters,
        traced_structure(config, lane_loop),
        programs.has_fixed_start,
    )


def policy_of_session(config: StudyConfig, session: Session) -> Policy:
    """The policy of a study in this session, on the devices of this process."""
    n_trials, devices = session.largest_n_trials, len(devices_of(config))
    return policy_of(config, rungs_of(config), session.forecast, n_trials, devices)


Prepare = Callable[[ProgramClass, Mapping[str, Scalar]], None]
"""Begins to compile a class; the parameters are those of any of its trials."""


def prepare_classes(config: StudyConfig, data: Dataset, session: Session, prepare: Prepare) -> None:
    """Start to compile the classes of the lattice that are certain to get a trial."""
    policy = policy_of_session(config, session)
    structure_of = structures(config, Programs(data_spec(config, data)), policy.lane_loop)
    for program_class, params in _likely_classes(config, structure_of, policy):
        prepare(program_class, params)


def _likely_classes(
    config: StudyConfig, structure_of: Structures, policy: Policy
) -> Iterator[tuple[ProgramClass, Mapping[str, Scalar]]]:
    """The classes of the lattice that some trial is certain to use, with its parameters.

    Those with the most work come first. There are none if every class waits for its trials. Classes
    whose trials all have too many or too few parameters to be trained are left out.
    """
    feasibility = Feasibility(config, structure_of)
    if policy.switching is not None:
        yield from _switch_classes(feasibility, policy)
    if policy.strategy not in ("auto", "padded") or policy.lane_loop != "map":
        return
    ready: list[tuple[float, Mapping[str, Scalar]]] = []
    for family in policy.forecast.families.values():
        for block in family.classes:
            if block.trials < _LIKELY:
                continue
            params = block.example or _sized(config, family, block.width, block.depth)
            if block.widths:  # of a model with parts, the smallest trial is not known
                smallest = _sized(config, family, block.widths[0], block.depths[0])
                if not feasibility.may_win_between(_spec(smallest), _spec(params)):
                    continue
            ready.append((block.train_s, params))
    for _, params in sorted(ready, key=lambda pair: -pair[0]):
        trial = LiveTrial(_spec(params), 1)
        for program_class in plan_round([trial], (), structure_of, policy).classes:
            yield program_class, params


def _sized(config: StudyConfig, family: Family, width: int, depth: int) -> Mapping[str, Scalar]:
    """The parameters of a trial of a family with this width and depth, as far as they are drawn."""
    shape = {"model.width": width, "model.depth": depth}
    searched = [key for key in shape if key in config.search]
    return {**family.example, **{config.search[key].column(key): shape[key] for key in searched}}


def _spec(params: Mapping[str, Scalar]) -> TrialSpec:
    """Any trial with these parameters."""
    return TrialSpec(0, params, {}, 0)


def _switch_classes(
    feasibility: Feasibility, policy: Policy
) -> Iterator[tuple[ProgramClass, Mapping[str, Scalar]]]:
    """The classes of the whole space, if it has few structures, with parameters of each."""
    assert policy.switching is not None
    live = [LiveTrial(_spec(params), 1) for params in policy.switching.space]
    for program_class in plan_round(live, (), feasibility.structure_of, policy).classes:
        if any(feasibility.may_win(_spec(params)) for params in program_class.branches):
            yield program_class, program_class.branches[0]
