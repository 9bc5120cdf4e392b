"""The command that shows the guides: guide."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console, RenderableType

from sweeper.cli.console import answers, console_on
from sweeper.errors import Problem, StudyError, did_you_mean, listed

GUIDES = Path(__file__).parents[2] / "guide"
SETTINGS = "settings"
TOPICS = (
    "study-file",
    SETTINGS,
    "search",
    "models-and-programs",
    "commands",
    "python",
    "results",
    "winner",
    "recovery",
    "placement",
    "clusters",
    "benchmarks",
    "security",
    "architecture",
)
OPENING = "After reading this guide you can "  # the first words below the title of each
_WIDTH = 100  # longer lines are hard to read
_LEAST_LETTERS = 3  # shorter words are in too many headings
_COMMENT = re.compile(r"<!--.*?-->\n?", re.DOTALL)
_LINK = re.compile(r"(?<!!)\[([^]]+)\]\(([^)\s]+)\)")
_FENCE = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)
_HEADING = re.compile(r"^##+ (.+)$", re.MULTILINE)
_CODE = re.compile(r"`([^`]+)`")
_CODE_CELL = re.compile(r"^`([^`]*)`$")
_CELLS = re.compile(r" (?<!\\)\| ")


def guide(
    topic: Annotated[
        str | None, typer.Argument(metavar="[TOPIC]", help="A guide; if omitted, all are listed.")
    ] = None,
    setting: Annotated[
        str | None,
        typer.Argument(metavar="[SETTING]", help="One setting of the guide `settings`."),
    ] = None,
) -> None:
    """Show a guide in the terminal, list the guides, or explain one setting.

    `guide` lists the guides, `guide results` shows one, `guide settings optimizer.lr` explains a
    setting.
    """
    console = console_on(answers())
    console.width = min(console.width, _WIDTH)
    if topic is None:
        console.print(_list_of_guides())
    elif setting is not None:
        console.print(_explain(topic, setting), soft_wrap=not console.is_terminal)
    else:
        _show(console, _rendered(read_guide(topic), styled=console.is_terminal))


def read_guide(topic: str) -> str:
    """The Markdown of a guide.

    Raises:
        StudyError: no guide has this name.
    """
    if topic not in TOPICS:
        found, within = f"no guide is named '{topic}'", [*_sections_about(topic.strip())]
        about = f"read {listed(within, 'or')}" if within else ""
        hint = did_you_mean(topic, TOPICS) or about or f"the guides are {', '.join(TOPICS)}"
        raise StudyError(Problem("", "TOPIC", found, hint))
    return (GUIDES / f"{topic}.md").read_text(encoding="utf-8")


def _sections_about(word: str) -> Iterator[str]:
    """The guides with a heading in which a word begins with `word`; none if that is too short."""
    if len(word) < _LEAST_LETTERS:
        return
    begins = re.compile(rf"(?<!\w){re.escape(word)}", re.IGNORECASE)
    for topic in TOPICS:
        headings = _HEADING.findall(_FENCE.sub("", read_guide(topic)))
        if about := [one for one in headings if begins.search(one)]:
            yield f"`{topic}` ({about[0]})"


def summary(text: str) -> str:
    """What a reader of the guide can do afterwards."""
    paragraph = text.split("\n\n")[1]
    return " ".join(paragraph.split()).removeprefix(OPENING).partition(". ")[0].removesuffix(".")


def _list_of_guides() -> RenderableType:
    from rich.table import Table

    table = Table.grid("", "", padding=(0, 2))
    for topic in TOPICS:
        table.add_row(topic, summary(read_guide(topic)))
    return table


def _show(console: Console, shown: RenderableType) -> None:
    """Print the text, in a pager if it is longer than the terminal is high."""
    if not console.is_terminal:
        console.print(shown)
        return
    os.environ.setdefault("LESS", "-FRX")  # keep colours, and end at once if it fits on a screen
    # the pager looks at sys.stdout, which is standard error while a command runs
    with redirect_stdout(answers()), console.pager(styles=True):
        console.print(shown)


def _rendered(text: str, *, styled: bool) -> RenderableType:
    """A guide as the terminal shows it; without styles, code keeps its backticks."""
    from sweeper.cli.markdown import WholeMarkdown

    parts = _FENCE.split(_COMMENT.sub("", text))
    for at, prose in [*enumerate(parts)][::2]:  # each other part is a block of code
        linked = _LINK.sub(_named, prose)
        parts[at] = linked if styled else _CODE.sub(r"`` `\1` ``", linked)
    return WholeMarkdown("".join(parts), code_theme="ansi_dark", hyperlinks=False)


def _named(link: re.Match[str]) -> str:
    """A link as words: the terminal cannot follow one to a file of this package."""
    text, target = link[1], link[2]
    page = target.partition("#")[0]
    if "://" in target:
        return link[0]
    if page.removesuffix(".md") in TOPICS:
        return f"{text} (`sweeper guide {page.removesuffix('.md')}`)"
    return text


def _explain(topic: str, setting: str) -> str:
    """The entries of the guide `settings` for a setting, a table or a part of a key.

    Without any, the options of that name, of samplers and pruners.
    """
    if topic != SETTINGS:
        hint = f"write `sweeper guide {SETTINGS} {setting}`"
        raise StudyError(Problem("", "SETTING", f"guide '{topic}' lists no settings", hint))
    rows, setting = [*_rows(read_guide(topic))], setting.strip()
    found = [row for row in rows if row[0] == setting]
    found = found or [row for row in rows if re.fullmatch(_pattern(row[0]), setting)]
    found = found or [row for row in rows if f".{row[0]}.".endswith(f".{setting}.")]
    found = found or [row for row in rows if row[0].startswith(f"{setting}.")]
    found = found or [row for row in rows if f".{setting}." in f".{row[0]}."]
    if not found and (options := [*_options(setting)]):
        return "\n\n".join(options)
    if not found:
        within = [*_sections_about(setting)]
        about = f"read {listed(within, 'or')}" if within else ""
        hint = did_you_mean(setting, [row[0] for row in rows]) or about
        hint = hint or f"`sweeper guide {SETTINGS}` lists them all"
        raise StudyError(Problem("", "SETTING", f"no setting is named '{setting}'", hint))
    return "\n\n".join(_described(*row) for row in found)


def _options(setting: str) -> Iterator[str]:
    """The description of an option of samplers and pruners, which may be its last part.

    For the name of a sampler or pruner, the descriptions of all of its options.
    """
    from sweeper.config.study import PRUNERS, SAMPLERS
    from sweeper.config.toml import toml_value
    from sweeper.study.options import OPTIONS, default_of

    for table, names in (("study.sampler", SAMPLERS), ("study.pruner", PRUNERS)):
        for name in names:
            as_there = "" if name == "halving" else ", named as in Optuna"
            for key, option in OPTIONS[name].items():
                if name != setting and not f".{table}.{key}.".endswith(f".{setting}."):
                    continue
                example = f"{table} = {toml_value({'name': name, key: option.example})}"
                yield _block(
                    f"{table}.{key}",
                    (option.wanted, default_of(name, key), example),
                    f"an option of {name}{as_there}; see `sweeper guide study-file`",
                )
    if setting in ("study.pruner.wrapped", "wrapped"):
        yield _block(
            "study.pruner.wrapped",
            (
                "a pruner with its options",
                "none",
                'study.pruner = { name = "patient", patience = 3, wrapped = { name = "median" } }',
            ),
            "the pruner that patient wraps; see `sweeper guide study-file`",
        )


def _rows(text: str) -> Iterator[list[str]]:
    """The lines of the tables of settings, in cells."""
    for line in text.splitlines():
        if line.startswith("| `"):
            cells = _CELLS.split(line.removeprefix("| ").removesuffix(" |"))
            yield [_CODE_CELL.sub(r"\1", cell.replace("\\|", "|")) for cell in cells]


def _pattern(key: str) -> str:
    """A pattern that matches a key; keys of `model` and `optimizer` may also name a part."""
    pattern = re.escape(key).replace("KEY", r"[\w.-]+").replace("NAME", r"[\w-]+")
    pattern = pattern.replace("CLASS", r"[\w.:]+")
    return re.sub(r"^(model|optimizer)\\\.", r"\1\\.([\\w-]+\\.)?", pattern)


def _described(key: str, takes: str, default: str, example: str, meaning: str) -> str:
    return _block(key, (takes, default, f"{key} = {example}"), meaning)


def _block(key: str, cells: tuple[str, str, str], meaning: str) -> str:
    """A setting with what it takes, its default, an example and its meaning, each on a line."""
    lines = zip(("takes", "default", "example"), cells, strict=True)
    return "\n".join([key, *(f"  {name:<8} {text}" for name, text in lines), f"  {meaning}"])
