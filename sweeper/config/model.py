"""`[model]` and `[model.NAME]`: the network of each trial, or its parts."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field

from sweeper.config.kinds import Argument, Count, FunctionName
from sweeper.config.reading import RecipeTable, is_table, tables_of
from sweeper.config.refusals import missing, unknown_setting
from sweeper.config.table import DECLARED, FIXED, INITIAL, LATER, TRACED, Flaw, Table
from sweeper.errors import did_you_mean
from sweeper.trial import Scalar

_MOST_COUNTS = 16

OneKind = Literal["mlp", "tabm", "python"]
ModelKind = Literal[OneKind, "parts"]
# networks of hidden layers, which can be padded
LAYERED: frozenset[ModelKind] = frozenset({"mlp", "tabm"})
Activation = Literal["relu", "tanh", "gelu", "silu", "elu", "sigmoid", "leaky_relu"]


class _LayerKeys(Table):
    """The keys of every network of hidden layers."""

    depth: Annotated[int, Field(ge=0, le=1000)] = Field(
        description="hidden layers; 0 is a linear model, and tabm needs 1 or more", examples=[2]
    )
    width: Count = Field(description="units of each hidden layer", examples=[64])
    activation: Activation = Field(default="relu", description="activation after each hidden layer")
    dropout: Annotated[float, Field(ge=0, lt=1), TRACED] = Field(
        default=0.0,
        description="dropout probability of hidden units in training",
        examples=[0.1],
    )


class _MlpKeys(_LayerKeys):
    """The keys of a multilayer perceptron."""

    layer_norm: bool = Field(default=False, description="whether hidden layers are normalised")


class _NumberKeys(Table):
    """How a network takes the numbers of its rows."""

    numbers: Annotated[Literal["linear", "ple", "plr"], LATER] = Field(
        default="linear",
        description="how the first layer gets each number: as it is, with ple in piecewise-linear "
        "encoding, or with plr as a trained periodic embedding",
        examples=["ple"],
    )
    n_bins: Annotated[int, Field(ge=1, le=1024), LATER] = Field(
        default=32, description="the largest number of bins of a number, for ple", examples=[16]
    )
    bins: Annotated[Literal["quantile", "tree"], LATER] = Field(
        default="quantile",
        description="where bins end, for ple: at quantiles, or where a decision tree splits",
        examples=["tree"],
    )
    n_frequencies: Annotated[int, Field(ge=1, le=1024), LATER] = Field(
        default=48, description="frequencies of each number, for plr", examples=[16]
    )
    frequency_scale: Annotated[float, Field(gt=0), INITIAL] = Field(
        default=0.01,
        description="standard deviation of the first frequencies, for plr",
        examples=[0.1],
    )
    embedding_size: Annotated[int, Field(ge=1, le=1024), LATER] = Field(
        default=24, description="inputs that each number becomes, for plr", examples=[8]
    )


class _TabMKeys(Table):
    """The keys of TabM alone."""

    ensemble_size: Annotated[int, Field(ge=1, le=1000)] = Field(
        default=32, description="members that share weights", examples=[16]
    )


class _PythonKeys(Table):
    """A user-defined function and its arguments, which are the other keys."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Argument] = Field(init=False)  # pyright: ignore

    function: Annotated[FunctionName, FIXED] = Field(
        description="module:function that builds the model; gets all other keys of [model]",
        examples=["nets:build"],
    )
    fixed_start: Annotated[bool, FIXED, DECLARED] = Field(
        default=False,
        description="whether all trials start from the same weights for every key, such as "
        "pretrained ones",
        examples=[True],
    )


class LayersTable(_LayerKeys):
    """A network of hidden layers, whose width and depth can be padded."""

    @property
    def with_hidden_layers(self) -> Mapping[str, tuple[int, int]]:
        """Width and depth, which can be padded, by the empty name; empty if it is linear."""
        return {"": (self.width, self.depth)} if self.depth else {}


class MlpTable(_MlpKeys, LayersTable):
    """A multilayer perceptron of `depth` hidden layers; depth 0 is a linear model."""

    kind: Annotated[Literal["mlp"], FIXED] = Field(
        default="mlp", description="a multilayer perceptron"
    )


# the settings that only have an effect with one way to take numbers
OF_NUMBERS: Mapping[str, tuple[str, ...]] = {
    "ple": ("n_bins", "bins"),
    "plr": ("n_frequencies", "frequency_scale", "embedding_size"),
}


class RowModelTable(_NumberKeys, LayersTable):
    """A network of hidden layers that takes rows of the data, and may encode their numbers."""

    @property
    def encoded_by(self) -> str | None:
        """The name of the bins by which it encodes numbers; None if it has none."""
        return bins_name(self.bins, self.n_bins) if self.numbers == "ple" else None

    @property
    def idle(self) -> tuple[str, ...]:
        """Settings without effect."""
        return tuple(n for way, names in OF_NUMBERS.items() if way != self.numbers for n in names)


class RowMlpTable(RowModelTable, MlpTable):
    """A multilayer perceptron that takes rows of the data."""


def bins_name(way: str, count: int) -> str:
    """The name of bins whose edges are chosen in this way, such as `quantile 32`."""
    return f"{way} {count}"


def _has_hidden_layers(depth: int) -> Iterator[Flaw]:
    if depth == 0:
        yield Flaw("depth", "TabM has at least one hidden layer", 'write 1, or kind = "mlp"')


class TabMTable(RowModelTable, _TabMKeys):
    """TabM (Gorishniy et al. 2024): `ensemble_size` MLPs that share most of their weights."""

    rules = (_has_hidden_layers,)

    kind: Annotated[Literal["tabm"], FIXED] = Field(
        description="TabM, an ensemble of MLPs that share weights"
    )


class PythonTable(_PythonKeys):
    """A model that a user-defined `function` builds."""

    with_hidden_layers: ClassVar[Mapping[str, tuple[int, int]]] = {}

    kind: Annotated[Literal["python"], FIXED] = Field(description="your own model")

    @property
    def arguments(self) -> Mapping[str, Scalar]:
        """The arguments of the function besides sizes and a key, by name."""
        return self.__pydantic_extra__


class MixedTable(_PythonKeys, _TabMKeys, _NumberKeys, _MlpKeys):
    """Keys of all kinds, if `kind` is searched; the function does not get those of other kinds."""

    model_config = ConfigDict(extra="allow")

    kind: OneKind = Field(description="kind of model")
    function: Annotated[FunctionName | None, FIXED] = Field(  # pyright: ignore
        default=None,
        description="module:function that builds your own model, if some trials have one",
        examples=["nets:build"],
    )

    def own(self) -> ModelTable:
        """The table of its kind, without the keys of others."""
        table = MODELS[self.kind]
        values: dict[str, Any] = {name: getattr(self, name) for name in table.model_fields}
        if table is PythonTable:
            values |= self.__pydantic_extra__
        return table.model_construct(**values)


ModelTable = RowMlpTable | TabMTable | PythonTable
MODELS: Mapping[str, type[ModelTable]] = {
    "mlp": RowMlpTable,
    "tabm": TabMTable,
    "python": PythonTable,
}


def check_kinds(
    table: MixedTable, kinds: Collection[object], searched: Collection[str]
) -> Iterator[Flaw]:
    """Check that a function is named if some trials call it, and no arguments otherwise."""
    if "python" in (*kinds, table.kind):  # a trial that draws no kind has the written one
        if table.function is None:
            yield missing("model.function", 'write function = "module:function"')
        return
    known = [f"model.{name}" for name in type(table).model_fields]
    drawn = [key for key in searched if key.startswith("model.")]
    for key in dict.fromkeys([*(f"model.{name}" for name in table.__pydantic_extra__), *drawn]):
        if key not in known:
            yield unknown_setting(key, key, known)
    if table.function is not None:
        found = "no trial has a user-defined model"
        yield Flaw("model.function", found, 'add "python" to the choices, or remove it')


def check_bins(counts: Sequence[object]) -> Iterator[Flaw]:
    """Check that few numbers of bins are searched: each has its own edges and programs."""
    if len(counts) > _MOST_COUNTS:
        found = f"{len(counts)} numbers of bins, each with its own programs"
        hint = f"write base = 2, a step or choices, for at most {_MOST_COUNTS}"
        yield Flaw("search.model.n_bins", found, hint)


def concerns(table: Table, name: str, kind: ModelKind) -> bool:
    """Whether models of `kind` use a key of this `[model]`."""
    if isinstance(table, MixedTable):
        declared = [one for one, model_table in MODELS.items() if name in model_table.model_fields]
        return kind in (declared or ["python"])  # the arguments of its function
    return getattr(table, "kind", None) == kind


class _Wiring(Table):
    """The input of a part, and its sizes."""

    input: Annotated[str | None, FIXED] = Field(
        default=None,
        description="the part whose output feeds this one; default: the data",
        examples=["trunk"],
    )
    in_size: Annotated[Count | None, FIXED] = Field(
        default=None,
        description="input size, if neither the data nor another part determines it: the latent "
        "size of a generator",
        examples=[8],
    )
    out_size: Count | None = Field(
        default=None,
        description="output size; default: that of what the loss compares it with",
        examples=[32],
    )


class MlpPart(MlpTable, _Wiring):
    """A multilayer perceptron, as one part of a model."""


class PythonPart(PythonTable, _Wiring):
    """The output of a user-defined function, as one part of a model."""

    model_config = ConfigDict(extra="allow")  # otherwise it would be inherited from the wiring


Part = MlpPart | PythonPart
PARTS: Mapping[str, type[Part]] = {"mlp": MlpPart, "python": PythonPart}


class PartsTable(RecipeTable):
    """The parts of a model by name, in the order of the file."""

    kind: ClassVar[Literal["parts"]] = "parts"

    @property
    def parts(self) -> Mapping[str, Part]:
        """The parts by name."""
        return tables_of(self)

    @property
    def with_hidden_layers(self) -> Mapping[str, tuple[int, int]]:
        """Width and depth of each MLP with hidden layers, which can be padded."""
        sizes = ((name, part.with_hidden_layers.get("")) for name, part in self.parts.items())
        return {name: size for name, size in sizes if size is not None}


def has_parts(raw: object) -> bool:
    """Whether a raw `[model]` has parts: it contains tables."""
    return is_table(raw) and any(is_table(value) for value in raw.values())


def check_wiring(inputs: Mapping[str, str | None]) -> Iterator[Flaw]:
    """Check that each part is fed by another part, and not by itself."""
    for name, source in inputs.items():
        key = f"model.{name}.input"
        if source is None:
            continue
        if source not in inputs:
            yield unknown_part(key, source, [*inputs])
        elif name in upstream(source, inputs):
            found = f"'{name}' feeds '{source}', which feeds '{name}'"
            yield Flaw(key, found, "let the data feed one of them")


def in_order(inputs: Mapping[str, str | None]) -> tuple[str, ...]:
    """The parts, each after the one that feeds it."""
    return tuple(sorted(inputs, key=lambda name: len(upstream(name, inputs))))


def unknown_part(key: str, name: str, parts: Sequence[str]) -> Flaw:
    """The flaw of naming a part that does not exist."""
    hint = did_you_mean(name, parts) or f"the parts are {', '.join(parts)}"
    return Flaw(key, f"no part '{name}'", hint)


def upstream(name: str | None, inputs: Mapping[str, str | None]) -> set[str]:
    """The part `name` and all parts that its output depends on."""
    found: set[str] = set()
    while name is not None and name not in found:
        found.add(name)
        name = inputs.get(name)
    return found
