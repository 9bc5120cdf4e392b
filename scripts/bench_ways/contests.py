"""What is compared: studies, each trained in several ways with the same result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

DEVICES = 2  # simulated, of the switch strategy


@dataclass(frozen=True, slots=True)
class Way:
    """A way to train a study; `not_run` says why it cannot."""

    name: str
    settings: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    not_run: str = ""


@dataclass(frozen=True, slots=True)
class Contest:
    """Ways to train one study, shown as ratios to the first that runs.

    `alike` is how much the mean values of two ways may differ, as a share; None if small
    differences grow. `most` is the largest ratio that is sufficient. `{ring}` in settings is the
    path of the data of studies/coupled.toml. With `warm` each run is repeated with the cache that
    the first one left.
    """

    key: str
    title: str
    study: str
    settings: tuple[str, ...]
    ways: tuple[Way, ...]
    warm: bool = False
    alike: float | None = 0.02
    most: float | None = None

    def overrides(self, way: Way) -> tuple[str, ...]:
        """The settings that turn the file into this study, in one way."""
        return (*self.settings, *way.settings)

    def quick(self) -> Contest:
        """The same with two trials of two epochs, to see whether it runs."""
        few = ("study.n_trials=2", "train.epochs=2", "schedule.round_epochs=2")
        return replace(self, settings=(*self.settings, *few), alike=None, most=None)


def _size(trials: int, epochs: int) -> tuple[str, ...]:
    """This many trials in one round, without judging before its end."""
    return (
        "study.sampler={name='random'}",
        "study.pruner={name='none'}",
        f"study.n_trials={trials}",
        f"train.epochs={epochs}",
        f"schedule.parallel={trials}",
        f"schedule.round_epochs={epochs}",
    )


def _phases(fit: int, follow: int) -> tuple[str, ...]:
    return (f"train.phases.fit.epochs={fit}", f"train.phases.follow.epochs={follow}")


def _strategy(name: str, **more: object) -> Way:
    return Way(name, (f"execution.strategy={name}",), **more)  # type: ignore[arg-type]


def _space(depths: tuple[int, int], widths: tuple[int, int]) -> tuple[str, ...]:
    (low, high), (least, most) = depths, widths
    return (
        f"search.model.depth={{type='int', low={low}, high={high}}}",
        f"search.model.width={{type='int', low={least}, high={most}, base=2}}",
    )


_SWITCHING = tuple(Way(name, (f"train.switching={name}",)) for name in ("cond", "flag", "separate"))
_SWITCH = Way(
    "switch",
    ("execution.strategy=switch", "execution.workers=0"),
    {"XLA_FLAGS": f"--xla_force_host_platform_device_count={DEVICES}"},
)
_EXACT, _PADDED, _PROCESS = (_strategy(name) for name in ("exact", "padded", "process"))
_STRATEGIES = (_strategy("auto"), _EXACT, _PADDED, _PROCESS, _SWITCH)
_NO_PADDING = replace(_PADDED, not_run="user-defined models are not padded: trained as exact")

CONTESTS = (
    Contest(
        "phases-few",
        "`switching`: 4 trials of 20 epochs, phases of 4 and 1",
        "alternating",
        _size(4, 20),
        _SWITCHING,
        warm=True,
    ),
    Contest(
        "phases-many",
        "`switching`: 64 trials of 60 epochs, phases of 4 and 1",
        "alternating",
        _size(64, 60),
        _SWITCHING,
        warm=True,
    ),
    Contest(
        "phases-long",
        "`switching`: 8 trials of 500 epochs, phases of 100 and 50",
        "alternating",
        (*_size(8, 500), *_phases(100, 50)),
        _SWITCHING,
        warm=True,
    ),
    Contest(
        "parts-alternating",
        "`strategy`: 24 trials of parts in turns, 12 structures",
        "alternating",
        _size(24, 60),
        (_EXACT, _PADDED),
    ),
    Contest(
        "parts-coupled",
        "`strategy`: 12 trials of coupled models, 4 structures",
        "coupled",
        (
            *_size(12, 3),
            "data.path={ring}",
            "search.model.generator.width={type='int', low=32, high=64, base=2, name='g_width'}",
            "search.model.critic.depth={type='int', low=2, high=3, name='c_depth'}",
        ),
        (_EXACT, _PADDED),
        alike=None,
    ),
    Contest(
        "few",
        "`strategy`: 32 trials of 2 structures, digits",
        "digits",
        (*_size(32, 20), *_space((2, 2), (32, 64))),
        _STRATEGIES,
    ),
    Contest(
        "many",
        "`strategy`: 64 trials of 16 structures, digits",
        "digits",
        _size(64, 20),
        _STRATEGIES,
    ),
    Contest(
        "wide",
        "`strategy`: 8 trials of widths 256 and 512, 4 structures, digits",
        "digits",
        (*_size(8, 10), *_space((2, 3), (256, 512))),
        _STRATEGIES,
    ),
    Contest(
        "own",
        "`strategy`: 8 trials of 2 residual networks, digits",
        "residual",
        (
            *_size(8, 3),
            "search.model.blocks={type='categorical', choices=[1]}",
        ),
        tuple(_NO_PADDING if way is _PADDED else way for way in _STRATEGIES),
    ),
    Contest(
        "replicates",
        "`replicates`: the 64 trials of studies/digits.toml",
        "digits",
        (),
        tuple(Way(f"replicates = {count}", (f"study.replicates={count}",)) for count in (1, 5)),
        alike=None,
        most=2.5,
    ),
)
