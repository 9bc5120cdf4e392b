"""`[train]` of `coupled`: models that feed each other, each trained by its own loss."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from sweeper.config.kinds import Count, OneOf, is_function
from sweeper.config.model import MlpTable, Part, PartsTable, check_wiring
from sweeper.config.reading import RawTable, Recipe, RecipeTable, is_table
from sweeper.config.refusals import missing
from sweeper.config.table import FIXED, TRACED, Flaw
from sweeper.config.train import EpochsTable, Task

GENERATOR, CRITIC = "generator", "critic"  # the models that the built-in objectives train
OBJECTIVES = ("wgan_gp", "wgan", "gan")
WASSERSTEIN, COVERED = "sliced_wasserstein", "modes_covered"
# settings that only one objective uses
_OBJECTIVE_WITH = {"gradient_penalty": "wgan_gp", "clip": "wgan"}


def _setting_of_another_objective(
    objective: str, gradient_penalty: float | None, clip: float | None
) -> Iterable[Flaw]:
    for name, value in (("gradient_penalty", gradient_penalty), ("clip", clip)):
        if value is not None and objective != _OBJECTIVE_WITH[name]:
            found = f"the objective {objective} does not use it"
            hint = f'remove it, or write objective = "{_OBJECTIVE_WITH[name]}"'
            yield Flaw(name, found, hint)


def _target_of_none(objective: str, task: Task | None) -> Iterable[Flaw]:
    if task is not None and not is_function(objective):
        found = f"the objective {objective} predicts nothing"
        yield Flaw("task", found, "remove it, or write your own objective")


class CoupledTable(RecipeTable, EpochsTable):
    """Trains models that feed each other, each with its own optimizer and loss."""

    rules = (_setting_of_another_objective, _target_of_none)

    # facts from the rest of the file: the models, whether one of them generates rows to compare
    # with those of the data, and whether the data has modes
    models: ClassVar[tuple[str, ...]] = ()
    generates: ClassVar[bool] = True
    has_modes: ClassVar[bool] = False

    program: Annotated[Literal["coupled"], FIXED] = Field(
        description="models that feed each other, each with its own loss"
    )
    objective: Annotated[str, OneOf(OBJECTIVES), FIXED] = Field(
        description="the objective: a built-in one trains a generator and a critic; your own "
        "function gets models, batch and key, and returns the loss of each model by name",
        examples=["wgan_gp"],
    )
    critic_steps: Annotated[Count, TRACED] = Field(
        default=1,
        description="critic updates per update of each other model",
        examples=[5],
    )
    gradient_penalty: Annotated[Annotated[float, Field(ge=0, le=1e38)] | None, TRACED] = Field(
        default=None,
        description="weight of the gradient penalty on the critic; default: 10; only for wgan_gp",
        examples=[10.0],
    )
    clip: Annotated[Annotated[float, Field(gt=0, le=1e38)] | None, TRACED] = Field(
        default=None,
        description="largest absolute value of the critic's weights; default: 0.01; only for wgan",
        examples=[0.01],
    )
    task: Annotated[Task | None, FIXED] = Field(
        default=None,
        description="kind of target, for your own objective that uses batch.y; if omitted, no "
        "target is read",
    )
    debug_gradients: Annotated[bool, FIXED] = Field(
        default=False,
        description="whether every step asserts that no loss has a gradient to a model that feeds "
        "its own, and that models that are not updated do not change; slow",
    )

    def runs_of(self, model: str) -> int:
        """About how many times the rows of a batch pass through a model in one step."""
        if model != CRITIC or is_function(self.objective):
            return 1
        # generated and real rows; a penalty needs the gradient of a gradient
        return 4 if self.objective == "wgan_gp" else 2

    @property
    def target(self) -> Task | None:
        return self.task

    @property
    def loss(self) -> str:
        """What messages call the objective."""
        return self.objective

    @property
    def loss_keys(self) -> tuple[str, ...]:
        return ()

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics of generated rows."""
        if not self.generates:
            return ()
        return (WASSERSTEIN, COVERED) if self.has_modes else (WASSERSTEIN,)

    @property
    def functions(self) -> Mapping[str, str]:
        return {self.objective: "objective"} if is_function(self.objective) else {}

    @property
    def loss_names(self) -> tuple[str, ...]:
        return tuple(f"loss_{name}" for name in self.models)


def coupled_recipe(raw: RawTable) -> Recipe:
    """How to read the raw `[train]` of this program."""
    models: Any = raw.get("model", {})
    data: Any = raw.get("data", {})
    models = {name: one for name, one in models.items() if is_table(one)}
    generator = models.get(GENERATOR, {})
    takes_noise = "in_size" in generator and "input" not in generator
    facts = {
        "models": tuple(models),
        "generates": takes_noise or raw["train"].get("objective") in OBJECTIVES,
        "has_modes": is_table(data) and "mode" in data,
    }
    return Recipe(CoupledTable, (), tuple(facts.items()))


def feeds(name: str, train: CoupledTable, inputs: Mapping[str, str | None]) -> str | None:
    """The model whose output feeds the model `name`; None if no model feeds it."""
    if name == CRITIC and not is_function(train.objective):
        return GENERATOR
    return inputs[name]


def sizes_of(model: PartsTable, features: int) -> Mapping[str, tuple[int, int]]:
    """The input and output size of each model, if the data has this many features."""
    parts = model.parts

    def out_size(name: str) -> int:
        return parts[name].out_size or (features if name == GENERATOR else 1)

    def in_size(part: Part) -> int:
        return part.in_size or (features if part.input is None else out_size(part.input))

    return {name: (in_size(part), out_size(name)) for name, part in parts.items()}


def check_models(
    train: CoupledTable, model: PartsTable, searched: Collection[str]
) -> Iterator[Flaw]:
    """Check that the objective has its models, and that all models have sizes."""
    parts = model.parts
    if is_function(train.objective):
        yield from check_wiring({name: part.input for name, part in parts.items()})
        yield from _unfit_own(parts)
        several = train.critic_steps > 1 or "train.critic_steps" in searched
        if several and CRITIC not in parts:
            found = f"no model is named '{CRITIC}'"
            yield Flaw("train.critic_steps", found, f"remove it, or write [model.{CRITIC}]")
        return
    for name in (GENERATOR, CRITIC):
        if name not in parts:
            hint = (
                f"the objective {train.objective} trains [model.{GENERATOR}] and [model.{CRITIC}]"
            )
            yield missing(f"model.{name}", hint)
    for name in parts:
        if name not in (GENERATOR, CRITIC):
            found = f"the objective {train.objective} only trains '{GENERATOR}' and '{CRITIC}'"
            yield Flaw(f"model.{name}", found, "remove it, or write your own objective")
    yield from _unfit_generator(parts.get(GENERATOR))
    yield from _unfit_critic(parts.get(CRITIC))


def _unfit_generator(part: Part | None) -> Iterator[Flaw]:
    if part is None:
        return
    key = f"model.{GENERATOR}"
    if part.input is not None:
        yield Flaw(f"{key}.input", "the input of a generator is noise", "remove it")
    if part.in_size is None:
        why = "so the size of the generator's noise is not known"
        yield missing(f"{key}.in_size", "write the latent size, in_size = 8", why)


def _unfit_critic(part: Part | None) -> Iterator[Flaw]:
    if part is None:
        return
    key = f"model.{CRITIC}"
    if part.input not in (None, GENERATOR):
        found = f"'{part.input}', but the input of a critic is the output of '{GENERATOR}'"
        yield Flaw(f"{key}.input", found, "remove it")
    if part.in_size is not None:
        found = f"{part.in_size}, but the input of a critic is a row of the data"
        yield Flaw(f"{key}.in_size", found, "remove it")
    if part.out_size not in (None, 1):
        yield Flaw(f"{key}.out_size", f"{part.out_size} outputs per row", "write 1")


def _unfit_own(parts: Mapping[str, Part]) -> Iterator[Flaw]:
    for name, part in parts.items():
        key = f"model.{name}"
        if part.in_size is not None and part.input is not None:
            found = f"{part.in_size}, but the input of '{name}' is the output of '{part.input}'"
            yield Flaw(f"{key}.in_size", found, "remove it")
        if part.out_size is None and name not in (GENERATOR, CRITIC):
            why = f"so the size of '{name}' is not known"
            yield missing(f"{key}.out_size", "write out_size = ...", why)
        if isinstance(part, MlpTable) and part.dropout > 0:
            found = "your own objective calls the models without dropout"
            yield Flaw(f"{key}.dropout", found, "remove it")
