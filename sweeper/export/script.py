"""`load.py`: a model in a few lines of Python that only need Equinox, NumPy and its own library.

It contains exactly what this model needs: its parts, its columns and its predictions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from importlib.resources import files
from keyword import iskeyword
from math import isfinite
from typing import Any, TypeGuard, cast

from sweeper.config import Settings
from sweeper.config.alternating import AlternatingTable
from sweeper.config.coupled import GENERATOR, CoupledTable
from sweeper.config.main_module import MAIN_FILE
from sweeper.config.main_source import MAIN
from sweeper.config.model import PartsTable
from sweeper.config.rules import inputs_of
from sweeper.data.transform import BEYOND, DEVIATE, LEAST_BEYOND, MISSING, Transform
from sweeper.errors import listed
from sweeper.models.adapters import Adapted
from sweeper.models.encoding import PiecewiseLinear
from sweeper.models.layered_network import LayeredNetwork
from sweeper.models.mlp_network import MlpNetwork
from sweeper.models.network import Network
from sweeper.models.tabm_network import TabMNetwork
from sweeper.models.user_network import UserNetwork, takes_key

_PLAIN = re.compile(r"\w[\w-]*")  # like all study names, unless the file was edited


def preprocess(record: Mapping[str, Any], networks: Mapping[str, Network]) -> dict[str, Any]:
    """What `load.py` needs to know about the data: how rows become features, and predictions.

    `networks` are the parts of the model.
    """
    encoding = _encoding(networks)
    data, learnt = record["data"], Transform.of_record(record)
    spec, transform = data["spec"], data["transform"]
    kept = ("columns", "numbers", "fills", "scaling", "categories", "one_hot", "place_scaling")
    generated = {name: spec[name] for name in ("x_mean", "x_scale") if spec[name]}
    encoded = {} if encoding is None else asdict(encoding)
    return {
        **encoded,
        **{name: transform[name] for name in (*kept, "classes")},
        **{name: data[name] for name in ("fold", "class_names", "targets", "one_logit")},
        **{name: spec[name] for name in ("dtype", "y_mean", "y_scale")},
        "features": data["feature_names"],
        "ranges": data.get("ranges"),  # models of earlier versions do not have them
        "words": learnt.words,
        "decimal": learnt.decimal,
        "edition": learnt.edition,
        **generated,
    }


def load_script(
    record: Mapping[str, Any],
    settings: Settings,
    networks: Mapping[str, Network],
    digests: Mapping[str, str],
) -> str:
    """The text of `load.py` for the header of a saved model; `networks` are its parts.

    `digests` are the SHA-256 digests of the files that it reads, by name.
    """
    dtype = record["data"]["spec"]["dtype"]
    blocks = [
        _heading(record, settings, networks),
        _imports(record, settings, networks, digests),
        *([] if _encoding(networks) is None else [_ENCODED]),
        *(
            [_source_of("sweeper.models", "adapters.py")]
            if any(map(_is_adapted, networks.values()))
            else []
        ),
        *_classes(networks),
        _built(networks, dtype),
    ]
    if isinstance(settings.train, CoupledTable):
        blocks += [_generate(settings, networks)] if settings.train.generates else []
    else:
        blocks += [
            _source_of("sweeper.data", "identity.py"),
            _RANKED if _is_ranked(record) else _SCALED,
            _FEATURES,
        ]
        blocks += [_outputs(settings, networks), _predict(record["data"]["spec"])]
    return "\n\n".join(blocks)


def _is_ranked(record: Mapping[str, Any]) -> bool:
    """Whether numbers are scaled by their ranks."""
    transform = record["data"]["transform"]
    return any("quantiles" in (transform[name] or {}) for name in ("scaling", "place_scaling"))


def needed(networks: Mapping[str, Network]) -> list[str]:
    """The packages that `load.py` imports; `networks` are the parts of the model."""
    return ["equinox", *(_PACKAGES[one] for one in _libraries(networks)), "numpy"]


def _libraries(networks: Mapping[str, Network]) -> list[str]:
    """The modules of other libraries that parts of the model come from."""
    found = (one.model() for one in networks.values() if _is_adapted(one))
    return list(dict.fromkeys(model.library for model in found))


_PACKAGES = {"flax": "flax", "haiku": "dm-haiku"}


def _heading(record: Mapping[str, Any], settings: Settings, networks: Mapping[str, Network]) -> str:
    use = "predict(rows)  # a dict or a DataFrame of columns, or an array in their order"
    if isinstance(settings.train, CoupledTable):
        use = "MODELS  # by name; each maps one example"
        if settings.train.generates:
            use = "generate(1000)  # rows in the units of the data"
    study = str(record["study"])
    shown = study if _PLAIN.fullmatch(study) else _text(study)
    packages = listed(needed(networks))
    return (
        f'"""Trial {int(record["trial"])} of the study {shown}: only needs {packages}.'
        f'\n\n    import load\n    load.{use}\n"""'
    )


def _imports(
    record: Mapping[str, Any],
    settings: Settings,
    networks: Mapping[str, Network],
    digests: Mapping[str, str],
) -> str:
    users = [one.function for one in networks.values() if isinstance(one, UserNetwork)]
    texts = record["code"]["texts"]
    has_main = MAIN_FILE in texts
    copied = [name for name in texts if name != MAIN_FILE and name.endswith(".py")]
    standard = ["hashlib", *["importlib.util"] * has_main, "json"]
    standard += ["linecache"] * bool(users and copied) + ["sys"] * bool(users)
    standard += [] if isinstance(settings.train, CoupledTable) else ["warnings"]
    lines = [*(f"import {name}" for name in standard), "from pathlib import Path", ""]
    lines += ["import equinox as eqx", "import jax", "import numpy as np"]
    lines += ["from scipy.special import ndtri", ""] if _is_ranked(record) else [""]
    lines += ["HERE = Path(__file__).resolve().parent", "DIGESTS = {"]
    lines += [f"    {_text(name)}: {_text(digest)}," for name, digest in digests.items()]
    lines += ["}", *_CHECK]
    lines += ['DATA = json.loads((HERE / "preprocess.json").read_text(encoding="utf-8"))']
    if record["data"]["spec"]["dtype"] == "float64":
        lines += ['jax.config.update("jax_enable_x64", True)']
    if users:
        lines += ["sys.path.insert(0, str(HERE))  # the study's own code, copied here"]
        for library in _libraries(networks):
            package = _PACKAGES[library]
            lines += [
                "try:",
                f"    import {library}  # noqa: F401",
                "except ModuleNotFoundError as error:",
                f'    hint = "this model needs {package}: python -m pip install {package}"',
                "    raise ModuleNotFoundError(hint, name=error.name) from None",
            ]
        modules = dict.fromkeys(name.partition(":")[0] for name in users)
        if has_main:
            modules.pop(MAIN, None)
            lines += _LOAD_MAIN
        if copied:
            lines += ["for file in (", *(f"    {_text(name)}," for name in copied), "):"]
            lines += _CHECK_MODULE
        lines += [f"import {module}  # noqa: E402" for module in modules]
    return "\n".join(lines) + "\n"


_CHECK = (
    "for name, digest in DIGESTS.items():",
    "    if hashlib.sha256((HERE / name).read_bytes()).hexdigest() != digest:",
    '        raise ValueError(f"{HERE / name} is damaged or was edited: use another copy")',
)
# another export may have a file of this name
_LOAD_MAIN = (
    'name = "functions_of_main_" + hashlib.sha256(str(HERE).encode()).hexdigest()[:16]',
    f'spec = importlib.util.spec_from_file_location(name, HERE / "{MAIN_FILE}")',
    f"{MAIN} = sys.modules[name] = importlib.util.module_from_spec(spec)",
    f"spec.loader.exec_module({MAIN})",
)
_CHECK_MODULE = (
    '    name = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")',
    '    known = getattr(sys.modules.get(name), "__file__", None) or HERE / file',
    "    texts = [linecache.getlines(str(one)) for one in (known, HERE / file)]",
    "    if texts[0] != texts[1]:",
    '        found = f"{known}, which differs from {HERE / file}, is in use"',
    "        hint = f\"import {HERE / 'load.py'} in another program\"",
    '        raise ImportError(f"{found}; {hint}")',
)
_MLP = """\
class MLP(eqx.Module):
    layers: tuple
    norms: tuple
    activation: str = eqx.field(static=True)
    encoding: object = eqx.field(static=True)

    def __init__(self, sizes, activation, layer_norm, encoding=lambda x: x):
        keys = jax.random.split(jax.random.key(0), len(sizes) - 1)
        layers = zip(sizes[:-1], sizes[1:], keys, strict=True)
        self.layers = tuple(eqx.nn.Linear(before, after, key=key) for before, after, key in layers)
        self.norms = tuple(eqx.nn.LayerNorm(size) for size in sizes[1:-1] if layer_norm)
        self.activation, self.encoding = activation, encoding

    def __call__(self, x):
        x = self.encoding(x)
        for place, layer in enumerate(self.layers[:-1]):
            x = self.norms[place](layer(x)) if self.norms else layer(x)
            x = getattr(jax.nn, self.activation)(x)
        return self.layers[-1](x)
"""


_TABM = """\
class SharedLinear(eqx.Module):
    shared: eqx.nn.Linear
    r: jax.Array
    s: jax.Array
    bias: jax.Array

    def __init__(self, before, after, members):
        self.shared = eqx.nn.Linear(before, after, use_bias=False, key=jax.random.key(0))
        self.r = jax.numpy.zeros((members, before))
        self.s = self.bias = jax.numpy.zeros((members, after))

    def __call__(self, x):
        return (x * self.r) @ self.shared.weight.T * self.s + self.bias


class TabM(eqx.Module):
    layers: tuple
    last: eqx.nn.Linear
    activation: str = eqx.field(static=True)
    target: str = eqx.field(static=True)
    encoding: object = eqx.field(static=True)

    def __init__(self, sizes, activation, members, target, encoding=lambda x: x):
        *hidden, (before, after) = zip(sizes[:-1], sizes[1:], strict=True)
        self.layers = tuple(SharedLinear(*pair, members) for pair in hidden)
        keys = jax.random.split(jax.random.key(0), members)
        self.last = eqx.filter_vmap(lambda key: eqx.nn.Linear(before, after, key=key))(keys)
        self.activation, self.target, self.encoding = activation, target, encoding

    def __call__(self, x):
        x = self.encoding(x)
        for layer in self.layers:
            x = getattr(jax.nn, self.activation)(layer(x))
        outputs = jax.numpy.einsum("ki,koi->ko", x, self.last.weight) + self.last.bias
        if self.target == "numbers":
            return outputs.mean(axis=0)
        log_mean = lambda x: jax.nn.logsumexp(x, axis=0) - np.log(len(x))
        if outputs.shape[-1] == 1:
            return log_mean(jax.nn.log_sigmoid(outputs)) - log_mean(jax.nn.log_sigmoid(-outputs))
        return log_mean(jax.nn.log_softmax(outputs))
"""
_ENCODED = """\
def encoded(x):
    \"""Each number as its place in each of its bins.\"""
    place, start, slope, low, high = BINS
    parts = jax.numpy.clip((x[place.astype(int)] - start) * slope, low, high)
    return jax.numpy.concatenate([parts, x[len(DATA["edges"]) :]])


def bins():
    for number, edges in enumerate(DATA["edges"]):
        ends = list(zip(edges[:-1], edges[1:]))
        for place, (start, end) in enumerate(ends):
            low = -np.inf if DATA["open_ended"] and place == 0 else 0
            high = np.inf if DATA["open_ended"] and place == len(ends) - 1 else 1
            yield number, start, 1 / (end - start), low, high


BINS = np.array(list(bins()), DATA["dtype"]).T
"""
_PERIODIC = """\
class Periodic(eqx.Module):
    frequencies: jax.Array
    linear: eqx.nn.Linear

    def __init__(self, numbers, frequencies, size):
        keys = jax.random.split(jax.random.key(0), numbers)
        self.frequencies = jax.numpy.zeros((numbers, frequencies))
        make = lambda key: eqx.nn.Linear(2 * frequencies, size, key=key)
        self.linear = eqx.filter_vmap(make)(keys)

    def __call__(self, x):
        count = len(self.frequencies)
        angles = 2 * np.pi * self.frequencies * x[:count, None]
        waves = jax.numpy.concatenate([jax.numpy.sin(angles), jax.numpy.cos(angles)], axis=1)
        parts = jax.numpy.einsum("nf,nef->ne", waves, self.linear.weight) + self.linear.bias
        return jax.numpy.concatenate([jax.nn.relu(parts).ravel(), x[count:]])
"""
# the function of a user may build layers of another precision, but all of them are trained in one
_IN_PRECISION = """\
def in_precision(leaf):
    is_array = isinstance(leaf, jax.ShapeDtypeStruct)
    if is_array and jax.numpy.issubdtype(leaf.dtype, jax.numpy.floating):
        return jax.ShapeDtypeStruct(leaf.shape, DATA["dtype"])
    return leaf


"""
_CLASSES = ((MlpNetwork, _MLP), (TabMNetwork, _TABM))
_STATIC = "encoding: object = eqx.field(static=True)"


def _classes(networks: Mapping[str, Network]) -> Iterator[str]:
    """The code of the classes of the model."""
    layered = [one for one in networks.values() if isinstance(one, LayeredNetwork)]
    is_embedded = any(one.shape.embedding is not None for one in layered)
    if is_embedded:
        yield _PERIODIC
    for kind, code in _CLASSES:
        if any(isinstance(one, kind) for one in layered):
            yield code.replace(_STATIC, "encoding: Periodic") if is_embedded else code


def _built(networks: Mapping[str, Network], dtype: str) -> str:
    """The code for the model with its weights; for several parts, a dict of them by name."""
    body = _made(networks[""]) if [*networks] == [""] else _dict_of(networks)
    name = "MODEL" if [*networks] == [""] else "MODELS"
    if _has_state(networks):
        name = "MODEL, STATE"
    read = 'eqx.tree_deserialise_leaves(HERE / "model.eqx", eqx.filter_eval_shape(build))'
    build = f"def build():\n    return {body}\n\n\n"
    shapes = ""
    if any(isinstance(one, UserNetwork) for one in networks.values()):
        read = 'eqx.nn.inference_mode(eqx.tree_deserialise_leaves(HERE / "model.eqx", shapes))'
        build += _IN_PRECISION
        shapes = "    shapes = jax.tree.map(in_precision, eqx.filter_eval_shape(build))\n"
    within = f"with jax.enable_x64({dtype == 'float64'}):  # whatever the caller's setting is"
    return f"{build}{within}\n{shapes}    {name} = {read}\n"


def _has_state(networks: Mapping[str, Network]) -> bool:
    """Whether the function that builds the model also returns its state."""
    return any(one.state is not None for one in networks.values())


def _dict_of(networks: Mapping[str, Network]) -> str:
    lines = (f"        {_text(name)}: {_made(one)},\n" for name, one in networks.items())
    return "{\n" + "".join(lines) + "    }"


def _encoding(networks: Mapping[str, Network]) -> PiecewiseLinear | None:
    """How a model encodes numbers; None if it does not."""
    network = networks.get("")
    return network.encoding if isinstance(network, LayeredNetwork) else None


def _made(network: Network) -> str:
    """The call that creates a part of the model."""
    if isinstance(network, UserNetwork):
        sizes = {"in_size": network.in_size, "out_size": network.out_size}
        given = {**sizes, **dict(network.arguments)}
        arguments = "".join(keyword_argument(name, value) for name, value in given.items())
        call = f"{network.function.replace(':', '.')}({arguments}key=jax.random.key(0))"
        return f"adapted({call})" if _is_adapted(network) else call
    if isinstance(network, TabMNetwork):
        own = network.shape
        sizes = [own.in_size, *[own.width] * own.depth, own.out_size]
        activation, target = _text(network.activations[0]), _text(network.target)
        return f"TabM({sizes}, {activation}, {own.members}, {target}{_encoded(network)})"
    assert isinstance(network, MlpNetwork)
    shape = network.shape
    sizes = [shape.in_size, *[shape.width] * shape.depth, shape.out_size]
    given = f"{sizes}, {_text(network.activations[0])}, layer_norm={shape.layer_norm}"
    return f"MLP({given}{_encoded(network)})"


def _encoded(network: LayeredNetwork) -> str:
    """The argument that says how numbers are encoded or embedded, if they are."""
    embedding = network.shape.embedding
    if embedding is not None:
        sizes = embedding.n_numbers, embedding.n_frequencies, embedding.embedding_size
        return f", encoding=Periodic{sizes}"
    return "" if network.encoding is None else ", encoding=encoded"


def keyword_argument(name: str, value: object) -> str:
    """The code of an argument in a call; a name that is not an identifier is quoted."""
    if name.isidentifier() and not iskeyword(name):
        return f"{name}={_value(value)}, "
    return f"**{{{_text(name)}: {_value(value)}}}, "


def _value(value: object) -> str:
    if isinstance(value, float) and not isfinite(value):
        return f'float("{value}")'
    return _text(value) if isinstance(value, str) else repr(value)


def _text(value: str) -> str:
    """A string as Python code, with the quotes that formatters choose."""
    return json.dumps(value, ensure_ascii=False)


def _is_adapted(network: Network) -> TypeGuard[UserNetwork]:
    """Whether a part of the model comes from Flax or Haiku."""
    return isinstance(network, UserNetwork) and isinstance(network.model(), Adapted)


def _source_of(package: str, file: str) -> str:
    """The code of a module without imports from this package; its docstring becomes a comment."""
    text = files(package).joinpath(file).read_text(encoding="utf-8")
    about, _, code = text.partition('"""\n\nfrom __future__ import annotations\n\n')
    comments = (f"# {line}".rstrip() for line in about.removeprefix('"""').splitlines())
    return "\n".join(comments) + f"\n{code}"


_AS_NONE = '"which no training row had; they are taken as none of the known categories"'
_TAKEN = "; they are taken as none of the known categories"
_RANKED = f"""\
def deviate(column, known):
    column = with_known(column, known)
    steps = np.linspace(0, 1, len(known))
    first = -np.interp(-column, -known[::-1], -steps[::-1])
    rank = 0.5 * (first + np.interp(column, known, steps))
    found = np.clip(ndtri(rank), -{DEVIATE}, {DEVIATE})
    found[column < known[0]] = -{BEYOND}
    found[column > known[-1]] = {BEYOND}
    return found


def scaled(x, by):
    if by is None:
        return x
    columns = zip(x.T, np.array(by["quantiles"]), strict=True)
    return np.stack([deviate(*column) for column in columns], axis=1)
"""
_SCALED = """\
def scaled(x, by):
    if by is None:
        return x
    scale, shift = np.array(by["scale"]), np.array(by["shift"])
    return x * scale + shift if by["to_range"] else (x - shift) / scale
"""
_FEATURES = f"""\
def warn_of(what, places, then=""):
    \"""Warn about each column of numbers with something in some rows.\"""
    for name, count in zip(DATA["numbers"], places.sum(axis=0), strict=True):
        if count:
            message = f"'{{name}}' has {{what}} in {{count}} of {{len(places)}} rows{{then}}"
            warnings.warn(message, stacklevel=4)


def features(rows):
    \"""The model inputs: rows filled, scaled and encoded as in training.\"""
    if hasattr(rows, "iloc"):  # in pandas, names of columns may be numbers
        names = [*map(str, rows.keys())]
        rows = rows.set_axis(names, axis=rows.ndim - 1) if len({{*names}}) == len(names) else rows
    if not (hasattr(rows, "keys") or hasattr(rows, "columns")):
        columns = np.reshape(rows, (len(rows), -1)).T
        rows = dict(zip(DATA["columns"], columns, strict=True))
    if np.ndim(rows[DATA["columns"][0]]) == 0:  # a single row
        rows = {{name: [rows[name]] for name in DATA["columns"]}}
    words, is_exact, parts = DATA["words"], DATA["edition"] > 1, []
    if DATA["numbers"]:
        how = {{"exact": is_exact, "decimal": DATA["decimal"]}}
        columns = [floats_of_rows(rows[name], words, **how) for name in DATA["numbers"]]
        x = np.stack(columns, axis=1)
        gaps = np.isnan(x)
        if DATA["fills"]:
            warn_of("missing values", gaps, ", filled as in training")
            x = np.where(gaps, DATA["fills"], x)
        if not np.isfinite(x).all():
            what = "infinite" if DATA["fills"] else "missing or infinite"
            raise ValueError(f"a number is {{what}}")
        with np.errstate(over="ignore"):
            is_fit = np.isfinite(x.astype(DATA["dtype"])).all()
            x = scaled(x, DATA["scaling"]).astype(DATA["dtype"])
        if not (is_fit and np.isfinite(x).all()):
            raise ValueError(f"a number is too large for {{DATA['dtype']}}")
        if DATA["ranges"]:
            low, high = (np.array(DATA["ranges"][end], DATA["dtype"]) for end in ("low", "high"))
            least = {LEAST_BEYOND} * (high - low)  # less may come from rounding
            is_beyond = np.maximum(low - x, x - high) > least
            warn_of("numbers beyond the training range", is_beyond & ~gaps)
        parts.append(x)
    encoded = []
    for one in DATA["categories"]:
        known = KnownValues(one["values"], one["fill"], words, lenient=not is_exact)
        values = values_of(rows[one["name"]])
        places, gone = known.places(values)
        is_new = (places == UNKNOWN) & ~gone
        is_other = len(values) != 1 or not known.is_like(values[0])
        if is_new.any() and is_new[~gone].all() and is_other:
            raise ValueError(f"'{{one['name']}}' has no value that training rows had")
        if is_new.any():
            message = f"'{{one['name']}}' has values that no training row had{_TAKEN}"
            warnings.warn(message, stacklevel=3)
        if gone.any() and (one["fill"] is not None or (places[gone] == UNKNOWN).any()):
            done = "filled as in training" if one["fill"] is not None else {_AS_NONE}
            warnings.warn(f"'{{one['name']}}' has missing values, {{done}}", stacklevel=3)
        if DATA["one_hot"]:
            encoded.append(places[:, None] == np.arange(len(one["values"])))
        else:
            if None in one["values"]:
                places[places == one["values"].index(None)] = {MISSING}
            encoded.append(places[:, None])
    if encoded:
        parts.append(scaled(np.concatenate(encoded, axis=1), DATA["place_scaling"]))
    x = np.concatenate(parts, axis=1).astype(DATA["dtype"])
    if DATA["fold"]:
        scale, shift = np.array([DATA["fold"]["scale"], DATA["fold"]["shift"]], x.dtype)
        x = x * scale + shift
    return x
"""


def _outputs(settings: Settings, networks: Mapping[str, Network]) -> str:
    body = "x"
    if isinstance(settings.model, PartsTable):
        for name in _path_of_data(settings):
            body = _called(f"MODELS[{_text(name)}]", networks[name], body)
    else:
        body = _called("MODEL", networks[""], body)
    each = f"jax.vmap(lambda x: {body})(features(rows))"
    if _has_state(networks):
        each = f"jax.vmap(lambda x, state: {body}[0], in_axes=(0, None))(features(rows), STATE)"
    return (
        'def outputs(rows):\n    """The model outputs: logits, or scaled targets."""\n'
        f"    return np.asarray({each})\n"
    )


def _path_of_data(settings: Settings) -> list[str]:
    """The parts from the features to the part that is compared with the data."""
    assert isinstance(settings.model, PartsTable)
    train, inputs = settings.train, inputs_of(settings.model)
    assert isinstance(train, AlternatingTable) and train.of_data is not None
    wanted: str | None = train.by_loss[train.of_data].of
    path = list[str]()
    while wanted is not None:
        path.insert(0, wanted)
        wanted = inputs[wanted]
    return path


def _called(model: str, network: Network, x: str) -> str:
    is_keyed = isinstance(network, UserNetwork) and takes_key(cast(Any, network.model()))
    given = [x, *(["state"] if network.state is not None else []), *["key=None"] * is_keyed]
    return f"{model}({', '.join(given)})"


_UNDO = {"none": "", "log": "    found = np.exp(found)\n", "log1p": "    found = np.expm1(found)\n"}


def _predict(spec: Mapping[str, Any]) -> str:
    undo = _UNDO[spec.get("y_transform", "none")]
    return f"{_PREDICT}{undo}    return found[:, 0] if found.shape[1] == 1 else found\n"


_PREDICT = '''\
def predict(rows):
    """The class of each row, as in the data, or numbers in the units of the data."""
    return predictions(outputs(rows))


def predictions(found):
    """What `predict` returns, from the outputs of the model."""
    if DATA["class_names"]:
        chosen = (found[:, 0] > 0).astype(int) if DATA["one_logit"] else found.argmax(1)
        return labels_of(DATA["classes"])[chosen]
    found = found * np.array(DATA["y_scale"]) + np.array(DATA["y_mean"])
'''


def _generate(settings: Settings, networks: Mapping[str, Network]) -> str:
    assert isinstance(settings.model, PartsTable)
    size = settings.model.parts[GENERATOR].in_size
    body = _called(f"MODELS[{_text(GENERATOR)}]", networks[GENERATOR], "x")
    return f'''\
def generate(count, seed=0):
    """Rows that the generator makes from noise, in the units of the data."""
    noise = np.random.default_rng(seed).standard_normal((count, {size}))
    x = np.asarray(jax.vmap(lambda x: {body})(noise.astype(DATA["dtype"])))
    if DATA["fold"]:
        scale, shift = np.array([DATA["fold"]["scale"], DATA["fold"]["shift"]], x.dtype)
        x = (x - shift) / scale
    return x * np.array(DATA["x_scale"]) + np.array(DATA["x_mean"])
'''
