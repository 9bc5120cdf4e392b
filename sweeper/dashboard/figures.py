"""Charts of the page as matplotlib figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from io import BytesIO
from textwrap import fill
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection, PatchCollection
from matplotlib.colors import LinearSegmentedColormap, Normalize, to_rgba
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator, ScalarFormatter

from sweeper.dashboard.blocks import Option
from sweeper.dashboard.files import tones
from sweeper.errors import printable
from sweeper.results import formatting

_PIXEL = 0.01  # inches of a figure that a pixel of the page takes
_WIDTHS = {1: 7.6, 2: 11.0, 3: 12.0}  # inches, by the number of charts in a row
_SCREEN_DPI = 96
_FINE = 2  # pixels of the image for each of the screen
_SMALL, _TINY = 9, 8
_LETTER, _KEY = 0.072, 0.42  # inches of a legend
_FOOTER_LETTERS = 15  # per inch
_ROW_LETTERS = 40  # as many fit below the smallest chart
_MOST_LABELS = 30  # if they are upright or below each other
_MARKERS = {"circle": "o", "triangle": "^", "rect": "s", "diamond": "D"}
_MARGIN = 0.03  # next to the bounds of an axis, so that points at its ends are not cut off
_LABEL = 0.05  # of the height of a parallel axis
_PLAIN = (1e-3, 1e6)  # from where and up to where ticks have no exponent
_DASHES = {"solid": "-", "dashed": "--", "dotted": ":"}
_STEPS = {"end": "steps-post", "middle": "steps-mid"}
# where bars are within the row of a place: the upper edge and the height, as in page.js
_BARS = {
    "used": (-0.44, 0.52),
    "unused": (-0.44, 0.52),
    "whole": (-0.44, 0.52),
    "below": (0.12, 0.18),
    "mark": (0.33, 0.07),
}

Drawn = tuple[Option, float]
"""A chart that is filled in, and its height on the page in pixels."""


class StudyFigure(Figure):
    """A figure that notebooks show, at twice the resolution of the screen.

    It belongs to no window and to no state of pyplot, so it is shown once.
    """

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        image = BytesIO()
        self.savefig(image, format="png", dpi=_FINE * _SCREEN_DPI)
        width, height = (round(size * _SCREEN_DPI) for size in self.get_size_inches())
        return image.getvalue(), {"width": width, "height": height}


def draw(
    title: str, rows: Sequence[Sequence[Drawn | None]], notes: Sequence[str] = (), width: float = 0
) -> StudyFigure:
    """Rows of charts, each an option that is filled in, and its height on the page in pixels.

    A chart alone in its row takes all of it, None leaves a place empty. `notes` are below the
    charts; without charts they are all there is. `width` is the least one, in inches.
    """
    columns = max(map(len, rows), default=1)
    width = max(width, _WIDTHS[columns])
    heights = [_PIXEL * max(chart[1] for chart in row if chart) for row in rows] or [0.8]
    figure = StudyFigure(figsize=(width, sum(heights) + 0.4), layout="constrained")
    figure.suptitle(_text(title), x=0.01, ha="left", fontsize=11, fontweight="bold")
    if not rows:
        said = "\n".join(fill(note, int(0.8 * _FOOTER_LETTERS * width)) for note in notes)
        figure.text(0.01, 0.7, _text(said), va="top", color=tones()["faint"])
        return figure
    grid = figure.add_gridspec(len(rows), columns, height_ratios=heights)
    keys: list[tuple[Axes, float, dict[str, Any]]] = []
    for at, row in enumerate(rows):
        for place, chart in enumerate(row):
            if chart is None:
                continue
            axes = figure.add_subplot(grid[at, :] if len(row) == 1 else grid[at, place])
            option = chart[0]
            drawn = _parallel(axes, option) if "parallelAxis" in option else _plane(axes, option)
            if "legend" in option and drawn:
                keys.append((axes, width / len(row), drawn))
    _legends(figure, keys, width)
    if notes:
        said = "\n".join(fill(note, int(_FOOTER_LETTERS * width)) for note in notes)
        figure.supxlabel(_text(said), x=0.01, ha="left", fontsize=_TINY, color=tones()["faint"])
    return figure


def _legends(
    figure: Figure, keys: Sequence[tuple[Axes, float, dict[str, Any]]], width: float
) -> None:
    """One legend above each chart, or one for all if all have the same."""
    merged = {name: handle for _, _, own in keys for name, handle in own.items()}
    if len(keys) > 1 and any(set(own) == set(merged) for _, _, own in keys):
        style = _legend_style(merged, 0.7 * width)
        figure.legend(merged.values(), merged, loc="outside upper right", **style)
        return
    for axes, room, own in keys:
        above = {"loc": "lower left", "bbox_to_anchor": (0, 1)}
        where = {"loc": "upper left", "bbox_to_anchor": (0, 0)} if not axes.axison else above
        where["borderaxespad"] = 0.2
        axes.legend(own.values(), own, **where, **_legend_style(own, room - 0.8))


def _legend_style(keys: dict[str, Any], width: float) -> dict[str, Any]:
    longest = max(map(len, keys))
    columns = max(1, min(len(keys), int(width / (_KEY + _LETTER * longest))))
    return {
        "ncols": columns,
        "frameon": False,
        "fontsize": _SMALL,
        "handlelength": 1.6,
        "columnspacing": 1.2,
    }


def _plane(axes: Axes, option: Option) -> dict[str, Any]:
    """Draw a chart with two axes; returns the handles of its legend by name."""
    x, y = option["xAxis"], option["yAxis"]
    _prepare(axes)
    for name, given in (("x", x), ("y", y)):
        _scale(axes, name, given)
    to_x, to_y = _placing(x), _placing(y)
    keys: dict[str, Any] = {}
    rings: list[Any] = []
    below = np.zeros(len(x.get("data", ())))
    bars = [own for own in option["series"] if own["type"] == "bar"]
    for place, own in enumerate(option["series"]):
        depth = 2 + own.get("z", 2) + 0.01 * place
        match own["type"]:
            case "scatter":
                handle = _scatter(axes, own, to_x, to_y, depth, (x, y))
            case "line":
                handle = _line(axes, own, to_x, to_y, depth)
            case "bar":
                handle = _bar(axes, own, bars.index(own), len(bars), below, y)
            case "custom" if own["renderer"] == "band":
                handle = _band(axes, own, depth)
            case "custom":
                handle = _rectangles(axes, own, depth)
            case other:
                raise ValueError(f"unknown type of series: {other}")
        if handle is not None:
            keys.setdefault(_text(own["name"]), handle)
            if own.get("only") == "selected":
                rings.append(handle)
    for name, given in (("x", x), ("y", y)):
        _limit(axes, name, given, option)
        if given["type"] == "value":
            _label_ticks(axes, name)
    for ring in rings:
        _show_whole(axes, ring)
    names = [_text(name) for name in option.get("legend", {}).get("data", ())] or keys
    return {name: keys[name] for name in names if name in keys}


def _show_whole(axes: Axes, ring: Any) -> None:
    """Draw rings around points within the axes, even those that reach beyond an edge."""
    points = np.ma.getdata(ring.get_offsets())
    (left, right), (low, high) = sorted(axes.get_xlim()), sorted(axes.get_ylim())
    x, y = points.T
    ring.set_offsets(points[(left <= x) & (x <= right) & (low <= y) & (y <= high)])
    ring.set_clip_on(False)


def _prepare(axes: Axes) -> None:
    colours = tones()
    axes.set_axisbelow(True)
    axes.grid(color=colours["line"], linewidth=0.6)
    axes.tick_params(labelsize=_SMALL, colors=colours["text"], color=colours["faint"])
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(colours["faint"])


def _scale(axes: Axes, name: str, given: Option) -> None:
    """Set the label, the scale and the ticks of one axis."""
    own = axes.xaxis if name == "x" else axes.yaxis
    own.set_label_text(_text(given["name"]), fontsize=10)
    if given["type"] == "category":
        texts = [_text(text) for text in given["data"]]
        are_numbers = name == "x" and _are_numbers(texts)
        fitting = max(1, _ROW_LETTERS // (1 + max(map(len, texts))))
        most = fitting if are_numbers else _MOST_LABELS
        step = -(-len(texts) // most)
        own.set_ticks(range(0, len(texts), step), texts[::step])
        if name == "x" and sum(map(len, texts[::step])) > _ROW_LETTERS and not are_numbers:
            axes.tick_params(axis="x", labelrotation=30)
            for label in axes.get_xticklabels():
                label.set(ha="right", rotation_mode="anchor")
        if name == "y":
            axes.grid(False, axis="y")
    elif given["type"] == "log":
        base = given.get("logBase", 10)
        (axes.set_xscale if name == "x" else axes.set_yscale)("log", base=base)
        if base != 10:
            own.set_major_formatter(FuncFormatter(lambda value, _: formatting.number(value)))
            own.set_minor_locator(NullLocator())
    elif given.get("minInterval"):
        own.set_major_locator(MaxNLocator(integer=True))


def _are_numbers(texts: Sequence[str]) -> bool:
    return all(text.replace("-", "").isdecimal() for text in texts)


def _limit(axes: Axes, name: str, given: Option, option: Option) -> None:
    """Set the bounds of one axis, once everything is drawn."""
    set_limits = axes.set_xlim if name == "x" else axes.set_ylim
    low, high = axes.get_xlim() if name == "x" else axes.get_ylim()
    if given["type"] == "category":
        ends = (-0.5, len(given["data"]) - 0.5)
        set_limits(*(ends[::-1] if given.get("inverse") else ends))
        return
    has_points = any(own["type"] == "scatter" for own in option["series"])
    least, most = given.get("min"), given.get("max")
    if least is None and given["type"] == "value" and not given.get("scale") and low < high:
        set_limits(min(low, 0), high + (_MARGIN * (high - min(low, 0)) if has_points else 0))
    if isinstance(least, int | float) and isinstance(most, int | float):
        if name == "x" and (zoom := option.get("dataZoom")):
            least += zoom[0].get("start", 0) / 100 * (most - least)
        margin = _MARGIN if has_points else 0.0
        set_limits(*_wider(least, most, margin, is_log=given["type"] == "log"))
    elif least == "dataMin":
        axes.margins(x=0) if name == "x" else axes.margins(y=0)


def _bound(given: Option, end: str, default: float) -> float:
    """The bound of an axis, if it is a number."""
    bound: Any = given.get(end)
    return bound if isinstance(bound, int | float) else default


def _label_ticks(axes: Axes, name: str) -> None:
    """Label the ticks of an axis of numbers without a factor apart; huge ones have exponents."""
    own, ends = (axes.xaxis, axes.get_xlim()) if name == "x" else (axes.yaxis, axes.get_ylim())
    if _PLAIN[0] <= max(map(abs, ends)) < _PLAIN[1]:
        plain = ScalarFormatter(useOffset=False)
        plain.set_scientific(False)
        own.set_major_formatter(plain)
    else:
        own.set_major_formatter(FuncFormatter(lambda value, _: formatting.number(value)))


def _wider(low: float, high: float, margin: float, *, is_log: bool) -> tuple[float, float]:
    """Bounds with a margin on both sides; those of a single value are apart, too."""
    if low == high:
        return (low / 2, high * 2) if is_log else (low - 0.5, high + 0.5)
    if is_log:
        factor = (high / low) ** margin
        return low / factor, high * factor
    return low - margin * (high - low), high + margin * (high - low)


def _placing(given: Option) -> Callable[[Any], float]:
    """Where a value is on an axis: its own number, or its index among categories."""
    texts: Sequence[str] = given.get("data", ())
    indices = {text: place for place, text in enumerate(texts)}

    def place(value: Any) -> float:
        if value is None:
            return np.nan
        return indices.get(str(value), np.nan) if texts and not _is_index(value) else float(value)

    return place


def _is_index(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _points_of(
    own: Option, to_x: Callable[[Any], float], to_y: Callable[[Any], float]
) -> tuple[np.ndarray, np.ndarray]:
    data = [
        row if isinstance(row, list | tuple) else (at, row) for at, row in enumerate(own["data"])
    ]
    x = np.array([to_x(row[0]) for row in data], float)
    return x, np.array([to_y(row[1]) for row in data], float)


def _scatter(
    axes: Axes, own: Option, to_x: Any, to_y: Any, depth: float, within: Sequence[Option]
) -> Any:
    x, y = _points_of(own, to_x, to_y)
    shown = np.isfinite(x) & np.isfinite(y)
    for given, at in zip(within, (x, y), strict=True):
        low, high = _bound(given, "min", -np.inf), _bound(given, "max", np.inf)
        if np.isfinite(low) and np.isfinite(high):
            low, high = _wider(low, high, _MARGIN, is_log=given["type"] == "log")
        shown &= (at >= low) & (at <= high)
    x, y = x[shown], y[shown]
    if not len(x):
        return None
    size = (0.75 * own["symbolSize"]) ** 2 * (1.3 if own["symbolSize"] < 9 else 1)
    marker = (
        "X" if own.get("symbol", "").startswith("path") else _MARKERS[own.get("symbol", "circle")]
    )
    if own.get("only") == "selected":
        look: dict[str, Any] = {"facecolors": "none", "edgecolors": own["color"], "linewidths": 1.6}
    else:
        look = {"color": own["color"], "alpha": 0.75, "linewidths": 0}
    return axes.scatter(x, y, size, marker=marker, zorder=depth, **look)


def _line(axes: Axes, own: Option, to_x: Any, to_y: Any, depth: float) -> Any:
    x, y = _points_of(own, to_x, to_y)
    if not len(x):
        return None
    style = own.get("lineStyle", {})
    (drawn,) = axes.plot(
        x,
        y,
        color=own["color"],
        linestyle=_DASHES[style.get("type", "solid")],
        linewidth=0.75 * style.get("width", 2),
        drawstyle=_STEPS.get(own.get("step", ""), "default"),
        marker="o" if len(x) == 1 else None,
        clip_on=own.get("clip", True),
        zorder=depth,
    )
    return drawn


def _bar(axes: Axes, own: Option, at: int, n: int, below: np.ndarray, y: Option) -> Any:
    """Bars on top of each other if they are a stack, else next to each other."""
    values = np.nan_to_num(np.array(own["data"], float))
    places = np.arange(len(values))
    if y["type"] == "category":
        thick = 0.7 / n
        return axes.barh(places + (at - (n - 1) / 2) * thick, values, thick, color=own["color"])
    drawn = axes.bar(places, values, 0.8, bottom=below.copy(), color=own["color"])
    below += values
    return drawn


def _band(axes: Axes, own: Option, depth: float) -> Any:
    x, low, high = np.array(own["data"], float).reshape(-1, 3).T
    return axes.fill_between(x, low, high, color=own["color"], alpha=0.22, lw=0, zorder=depth)


def _rectangles(axes: Axes, own: Option, depth: float) -> Any:
    """Bars over time, one row per place; those of neighbouring rounds have different shades."""
    top, height = _BARS[own["renderer"]]
    shapes: list[Rectangle] = []
    colours: list[Any] = []
    for lane, begin, end, round_, *more in own["data"]:
        share = more[0] if more else 1.0
        if end <= begin or share <= 0:
            continue
        # the axis points down: what is used is at the bottom
        shift = height * (1 - share) if own["renderer"] == "used" else 0.0
        shapes.append(Rectangle((begin, lane + top + shift), end - begin, height * share))
        colours.append(to_rgba(own["color"], 1.0 if round_ % 2 else 0.6))
    if not shapes:
        return None
    axes.add_collection(PatchCollection(shapes, facecolors=colours, lw=0, zorder=depth))
    return Patch(color=own["color"])


def _parallel(axes: Axes, option: Option) -> dict[str, Any]:
    """Draw trials as lines through upright axes; returns the handles of the legend by name."""
    axes.set_axis_off()
    given = option["parallelAxis"]
    rows = [row for own in option["series"] for row in own["data"]]
    rulers = [_Ruler(one, [row[at] for row in rows]) for at, one in enumerate(given)]
    axes.set_xlim(-0.3, len(rulers) - 0.7 + 0.3)
    axes.set_ylim(-0.04, 1.04)
    colours = tones()
    for at, ruler in enumerate(rulers):
        axes.axvline(at, 0.04 / 1.08, 1.04 / 1.08, color=colours["faint"], lw=1, zorder=5)
        axes.text(at, 1.07, _text(ruler.name), ha="left", va="bottom", rotation=14, fontsize=10)
        for place, label in ruler.ticks():
            axes.plot([at, at + 0.03], [place, place], color=colours["faint"], lw=1, zorder=5)
            halo = {"facecolor": "white", "alpha": 0.7, "edgecolor": "none", "pad": 0.5}
            axes.text(
                *(at + 0.04, place, _text(label)), va="center", fontsize=_TINY, zorder=6, bbox=halo
            )
    keys: dict[str, Any] = {}
    for place, own in enumerate(option["series"]):
        lines = [
            np.array(
                [
                    (at, ruler.place(value))
                    for at, (ruler, value) in enumerate(zip(rulers, row, strict=True))
                ]
            )
            for row in own["data"]
        ]
        if not lines:
            continue
        style = own["lineStyle"]
        look = {"lw": style["width"], "alpha": style["opacity"], "zorder": 3 - place}
        colour = own.get("color")
        if colour is None:
            _coloured(axes, option["visualMap"], own["data"], lines, look)
        else:
            axes.add_collection(LineCollection(lines, colors=colour, linestyle="--", **look))
            keys[_text(own["name"])] = Line2D([], [], color=colour, linestyle="--")
        _single(axes, lines, colour or colours["muted"])
    return keys


def _coloured(
    axes: Axes,
    scale: Option,
    rows: Sequence[Any],
    lines: Sequence[np.ndarray],
    look: dict[str, Any],
) -> None:
    """Draw lines in the colour of their value, the best on top, and the key to the colours."""
    colours = tones()["scale"].split()
    colours = colours if scale["best"] == "high" else colours[::-1]
    shades = LinearSegmentedColormap.from_list("page", colours)
    norm = Normalize(scale["min"], scale["max"], clip=True)
    values = [row[scale["dimension"]] for row in rows]
    drawn = LineCollection(list(lines)[::-1], cmap=shades, norm=norm, **look)
    drawn.set_array(np.array(values[::-1], float))
    axes.add_collection(drawn)
    key = axes.figure.colorbar(
        ScalarMappable(norm, shades), ax=axes, fraction=0.02, pad=0.02, aspect=30
    )
    key.outline.set_visible(False)
    key.ax.tick_params(labelsize=_TINY)
    end = "min" if scale["best"] == "high" else "max"
    words = scale["text"][1] if end == "min" else scale["text"][0]
    if "or" in words.split():
        name, place = words.removesuffix(" or less").removesuffix(" or more"), scale[end]
        ticks = [tick for tick in key.get_ticks() if scale["min"] < tick < scale["max"]]
        gap = 0.06 * (scale["max"] - scale["min"])
        ticks = [tick for tick in ticks if abs(tick - place) > gap]
        sign = "≤" if end == "min" else "≥"
        shown = [formatting.number(tick) for tick in ticks]
        key.set_ticks([*ticks, place], labels=[*shown, f"{sign} {name.split()[-1]}"])


def _single(axes: Axes, lines: Sequence[np.ndarray], colour: str) -> None:
    """Draw points for values between two gaps, which no line reaches."""
    alone = [
        point
        for line in lines
        for at, point in enumerate(line)
        if np.isfinite(point[1])
        and (at == 0 or np.isnan(line[at - 1][1]))
        and (at == len(line) - 1 or np.isnan(line[at + 1][1]))
    ]
    if alone:
        x, y = np.array(alone).T
        axes.scatter(x, y, 5, color=colour, zorder=3, linewidths=0)


class _Ruler:
    """One of the parallel axes: where values are on it, from 0 to 1."""

    def __init__(self, given: Option, values: Sequence[Any]) -> None:
        self.name = given["name"]
        self._texts: Sequence[str] | None = given.get("data")
        self._is_log = given["type"] == "log"
        self._base = given.get("logBase", 10)
        self._is_whole = "minInterval" in given
        known = [float(it) for it in values if _is_index(it)]
        low = given.get("min", min(known, default=0.0))
        high = given.get("max", max(known, default=1.0))
        if self._texts:
            low, high = -0.5, len(self._texts) - 0.5
        elif low == high:
            low, high = low - 0.5, high + 0.5
        self._ends = (low, high)

    def place(self, value: Any) -> float:
        """Where a value is drawn; nan for a missing one."""
        if value is None:
            return np.nan
        if self._texts and not _is_index(value):
            value = self._texts.index(str(value))
        low, high = self._ends
        if self._is_log and low > 0:
            return float(np.log(value / low) / np.log(high / low))
        return float((value - low) / (high - low))

    def ticks(self) -> list[tuple[float, str]]:
        """Places and labels."""
        if self._texts:
            return [(self.place(at), text) for at, text in enumerate(self._texts)]
        low, high = self._ends
        locator = LogLocator(self._base) if self._is_log else MaxNLocator(5, integer=self._is_whole)
        places = {self.place(it): it for it in locator.tick_values(low, high) if low < it < high}
        between = {at: it for at, it in places.items() if _LABEL < at < 1 - _LABEL}
        shown = {0.0: low, **between, 1.0: high}
        return [(at, formatting.number(float(it))) for at, it in shown.items()]


def _text(text: str) -> str:
    """Text as it is: no formulas, no control characters."""
    return printable(str(text), "\n").replace("$", r"\$")
