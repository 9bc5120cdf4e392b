"""`load.py`: a model in a few lines of Python that only need Equinox and NumPy.

It contains exactly what this model needs: its parts, its columns and its predictions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from importlib.resources import files
from keyword import iskeyword
from math import isfinite
from typing import Any, cast

from sweeper.config import Settings
from sweeper.config.alternating import AlternatingTable
from sweeper.config.coupled import GENERATOR, CoupledTable
from sweeper.config.model import PartsTable
from sweeper.config.rules import inputs_of
from sweeper.data.transform import MISSING, Transform
from sweeper.models.mlp_network import MlpNetwork
from sweeper.models.network import Network
from sweeper.models.user_network import UserNetwork, takes_key

_PLAIN = re.compile(r"\w[\w-]*")  # like all study names, unless the file was edited


def preprocess(record: Mapping[str, Any]) -> dict[str, Any]:
    """What `load.py` needs to know about the data: how rows become features, and predictions."""
    data, learnt = record["data"], Transform.of_record(record)
    spec, transform = data["spec"], data["transform"]
    numbers, fold, scaling = len(transform["numbers"]), data["fold"], transform["scaling"]
    generated = {name: spec[name] for name in ("x_mean", "x_scale") if spec[name]}
    return {
        "columns": transform["columns"],
        "numbers": transform["numbers"],
        "fills": transform["fills"],
        "scaling": scaling if numbers else None,
        "categories": transform["categories"],
        "one_hot": transform["one_hot"],
        "place_scaling": transform["place_scaling"],
        "fold": fold,
        "words": learnt.words,
        "edition": learnt.edition,
        "dtype": spec["dtype"],
        "features": data["feature_names"],
        "classes": transform["classes"],
        "class_names": data["class_names"],
        "targets": data["targets"],
        "y_mean": spec["y_mean"],
        "y_scale": spec["y_scale"],
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
    data = record["data"]
    blocks = [
        _heading(record, settings),
        _imports(data, networks, digests),
        *([_MLP] if any(isinstance(one, MlpNetwork) for one in networks.values()) else []),
        _built(networks, data["spec"]["dtype"]),
    ]
    if isinstance(settings.train, CoupledTable):
        blocks += [_generate(settings, data)] if settings.train.generates else []
    else:
        blocks += [_identity(), _features(data), _outputs(settings, networks), _predict(data)]
    return "\n\n".join(blocks)


def _heading(record: Mapping[str, Any], settings: Settings) -> str:
    use = "predict(rows)  # a dict or a DataFrame of columns, or an array with all in their order"
    if isinstance(settings.train, CoupledTable):
        use = "MODELS  # by name; each maps one example"
        if settings.train.generates:
            use = "generate(1000)  # rows in the units of the data"
    study = str(record["study"])
    shown = study if _PLAIN.fullmatch(study) else _text(study)
    return (
        f'"""Trial {int(record["trial"])} of the study {shown}: only needs equinox and numpy.'
        f'\n\n    import load\n    load.{use}\n"""'
    )


def _imports(
    data: Mapping[str, Any], networks: Mapping[str, Network], digests: Mapping[str, str]
) -> str:
    users = [one.function for one in networks.values() if isinstance(one, UserNetwork)]
    has_categories = bool(data.get("transform", {}).get("categories"))
    standard = ["hashlib", "json", *(["sys"] if users else [])]
    standard += ["warnings"] if has_categories else []
    lines = [*(f"import {name}" for name in standard), "from pathlib import Path", ""]
    lines += ["import equinox as eqx", "import jax", "import numpy as np", ""]
    lines += ["HERE = Path(__file__).parent", "DIGESTS = {"]
    lines += [f"    {_text(name)}: {_text(digest)}," for name, digest in digests.items()]
    lines += ["}", *_CHECK]
    lines += ['DATA = json.loads((HERE / "preprocess.json").read_text(encoding="utf-8"))']
    if data["spec"]["dtype"] == "float64":
        lines += ['jax.config.update("jax_enable_x64", True)']
    if users:
        lines += ["sys.path.insert(0, str(HERE))  # the study's own code, copied here"]
        modules = dict.fromkeys(name.partition(":")[0] for name in users)
        lines += [f"import {module}  # noqa: E402" for module in modules]
    return "\n".join(lines) + "\n"


_CHECK = (
    "for name, digest in DIGESTS.items():",
    "    if hashlib.sha256((HERE / name).read_bytes()).hexdigest() != digest:",
    '        raise ValueError(f"{HERE / name} is damaged or was edited: use another copy")',
)
_MLP = """\
class MLP(eqx.Module):
    layers: tuple
    norms: tuple
    activation: str = eqx.field(static=True)

    def __init__(self, sizes, activation, layer_norm):
        keys = jax.random.split(jax.random.key(0), len(sizes) - 1)
        layers = zip(sizes[:-1], sizes[1:], keys, strict=True)
        self.layers = tuple(eqx.nn.Linear(before, after, key=key) for before, after, key in layers)
        self.norms = tuple(eqx.nn.LayerNorm(size) for size in sizes[1:-1] if layer_norm)
        self.activation = activation

    def __call__(self, x):
        for place, layer in enumerate(self.layers[:-1]):
            x = self.norms[place](layer(x)) if self.norms else layer(x)
            x = getattr(jax.nn, self.activation)(x)
        return self.layers[-1](x)
"""


def _built(networks: Mapping[str, Network], dtype: str) -> str:
    """The code for the model with its weights; for several parts, a dict of them by name."""
    body = _made(networks[""]) if [*networks] == [""] else _dict_of(networks)
    name = "MODEL" if [*networks] == [""] else "MODELS"
    read = 'eqx.tree_deserialise_leaves(HERE / "model.eqx", eqx.filter_eval_shape(build))'
    if any(isinstance(one, UserNetwork) for one in networks.values()):
        read = f"eqx.nn.inference_mode({read})"
    within = f"with jax.enable_x64({dtype == 'float64'}):  # whatever the caller's setting is"
    return f"def build():\n    return {body}\n\n\n{within}\n    {name} = {read}\n"


def _dict_of(networks: Mapping[str, Network]) -> str:
    lines = (f"        {_text(name)}: {_made(one)},\n" for name, one in networks.items())
    return "{\n" + "".join(lines) + "    }"


def _made(network: Network) -> str:
    """The call that creates a part of the model."""
    if isinstance(network, UserNetwork):
        sizes = {"in_size": network.in_size, "out_size": network.out_size}
        given = {**sizes, **dict(network.arguments)}
        told = "".join(keyword_argument(name, value) for name, value in given.items())
        return f"{network.function.replace(':', '.')}({told}key=jax.random.key(0))"
    assert isinstance(network, MlpNetwork)
    shape = network.shape
    sizes = [shape.in_size, *[shape.width] * shape.depth, shape.out_size]
    return f"MLP({sizes}, {_text(network.activations[0])}, layer_norm={shape.layer_norm})"


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
    return json.dumps(value)


def _identity() -> str:
    """The code that compares values of rows with those of training, as text."""
    text = files("sweeper.data").joinpath("identity.py").read_text(encoding="utf-8")
    about, _, code = text.partition('"""\n\nfrom __future__ import annotations\n\n')
    told = (f"# {line}".rstrip() for line in about.removeprefix('"""').splitlines())
    return "\n".join(told) + f"\n{code}"


def _features(data: Mapping[str, Any]) -> str:
    return "\n".join(["def features(rows):", *(f"    {line}" for line in _feature_lines(data))])


def _feature_lines(data: Mapping[str, Any]) -> Iterator[str]:
    transform, parts = data["transform"], list[str]()
    yield '"""The model inputs: rows filled, scaled and encoded as in training."""'
    yield 'if not (hasattr(rows, "keys") or hasattr(rows, "columns")):'
    yield "    columns = np.reshape(rows, (len(rows), -1)).T"
    yield '    rows = dict(zip(DATA["columns"], columns, strict=True))'
    if transform["numbers"]:
        parts.append("x")
        yield 'is_exact = DATA["edition"] > 1'
        yield "x = np.stack("
        yield '    [floats(rows[n], DATA["words"], exact=is_exact) for n in DATA["numbers"]],'
        yield "    axis=1,"
        yield ")"
        if transform["fills"]:
            yield 'x = np.where(np.isnan(x), DATA["fills"], x)'
        yield "if not np.isfinite(x).all():"
        what = "infinite" if transform["fills"] else "missing or infinite"
        yield f'    raise ValueError("a number is {what}")'
        if transform["scaling"]:
            yield f"x = {_scaled('x', 'scaling', transform)}"
    if transform["categories"]:
        parts.append("*encoded" if transform["one_hot"] else "encoded")
        yield "encoded = []"
        yield 'for one in DATA["categories"]:'
        yield '    is_lenient = DATA["edition"] == 1'
        yield '    words = DATA["words"]'
        yield '    known = KnownValues(one["values"], one["fill"], words, lenient=is_lenient)'
        yield '    values = values_of(rows[one["name"]])'
        yield "    places, gone = known.places(values)"
        yield "    is_new = (places == UNKNOWN) & ~gone"
        yield "    is_other = len(values) > 1 or not known.is_like(values[0])"
        yield "    if is_new.any() and is_new[~gone].all() and is_other:"
        yield "        raise ValueError(f\"'{one['name']}' has no value that training rows had\")"
        yield "    if is_new.any():"
        yield "        told = f\"'{one['name']}' has values that no training row had\""
        yield "        warnings.warn(told, stacklevel=3)"
        if transform["one_hot"]:
            yield '    encoded.append(places[:, None] == np.arange(len(one["values"])))'
        else:
            yield '    if None in one["values"]:'
            yield f'        places[places == one["values"].index(None)] = {MISSING}'
            yield "    encoded.append(places)"
            yield "encoded = np.array(encoded, float).T"
            if transform["place_scaling"]:
                yield f"encoded = {_scaled('encoded', 'place_scaling', transform)}"
    x = (
        parts[0]
        if parts in (["x"], ["encoded"])
        else f"np.concatenate([{', '.join(parts)}], axis=1)"
    )
    cast = f'{x}.astype(DATA["dtype"])'
    if data["fold"]:
        yield f"x = {cast}"
        yield 'scale, shift = np.array([DATA["fold"]["scale"], DATA["fold"]["shift"]], x.dtype)'
        yield "return x * scale + shift\n"
    else:
        yield f"return {cast}\n"


def _scaled(name: str, key: str, transform: Mapping[str, Any]) -> str:
    scale, shift = (f'np.array(DATA["{key}"]["{what}"])' for what in ("scale", "shift"))
    if transform[key]["to_range"]:
        return f"{name} * {scale} + {shift}"
    return f"({name} - {shift}) / {scale}"


def _outputs(settings: Settings, networks: Mapping[str, Network]) -> str:
    head = 'def outputs(rows):\n    """The model outputs: logits, or scaled targets."""\n'
    if not isinstance(settings.model, PartsTable):
        return f"{head}    return np.asarray(jax.vmap({_mapped(networks[''])})(features(rows)))\n"
    train, inputs = settings.train, inputs_of(settings.model)
    assert isinstance(train, AlternatingTable) and train.of_data is not None
    wanted: str | None = train.by_loss[train.of_data].of
    path = list[str]()
    while wanted is not None:
        path.append(wanted)
        wanted = inputs[wanted]
    body = "x"
    for name in reversed(path):
        body = _called(f"MODELS[{_text(name)}]", networks[name], body)
    return f"{head}    return np.asarray(jax.vmap(lambda x: {body})(features(rows)))\n"


def _mapped(network: Network) -> str:
    """The code that maps one example through a model with one part."""
    call = _called("MODEL", network, "x")
    return "MODEL" if call == "MODEL(x)" else f"lambda x: {call}"


def _called(model: str, network: Network, x: str) -> str:
    is_keyed = isinstance(network, UserNetwork) and takes_key(cast(Any, network.model()))
    return f"{model}({x}, key=None)" if is_keyed else f"{model}({x})"


def _predict(data: Mapping[str, Any]) -> str:
    if not data["class_names"]:
        one = "[:, 0]" if len(data["spec"]["y_mean"]) == 1 else ""
        return (
            'def predict(rows):\n    """The predicted numbers, in the units of the data."""\n'
            '    scale, mean = np.array(DATA["y_scale"]), np.array(DATA["y_mean"])\n'
            f"    return (outputs(rows) * scale + mean){one}\n"
        )
    chosen = "outputs(rows).argmax(1)"
    if data["one_logit"]:
        chosen = "(outputs(rows)[:, 0] > 0).astype(int)"
    return (
        'def predict(rows):\n    """The class of each row, by its name in the data."""\n'
        f'    return np.array(DATA["classes"])[{chosen}]\n'
    )


def _generate(settings: Settings, data: Mapping[str, Any]) -> str:
    assert isinstance(settings.model, PartsTable)
    size = settings.model.parts[GENERATOR].in_size
    of_fold = (
        '    scale, shift = np.array([DATA["fold"]["scale"], DATA["fold"]["shift"]], x.dtype)\n'
        "    x = (x - shift) / scale\n"
    )
    return (
        'def generate(count, seed=0):\n    """Rows that the generator makes from noise, in the '
        'units of the data."""\n'
        f"    noise = np.random.default_rng(seed).standard_normal((count, {size}))\n"
        f'    x = np.asarray(jax.vmap(MODELS["{GENERATOR}"])(noise.astype(DATA["dtype"])))\n'
        f"{of_fold if data['fold'] else ''}"
        '    return x * np.array(DATA["x_scale"]) + np.array(DATA["x_mean"])\n'
    )
