"""Columns of text that mean numbers or booleans, such as '$120', '12%', '1,234' and 'yes'."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from sweeper.config.toml import toml_value
from sweeper.data.csv_file import CsvFile
from sweeper.data.identity import means_missing
from sweeper.errors import listed

# how many different values, of how many rows, to look at
_MAX_VALUES = 2_000
_MAX_ROWS = 100_000
_LEAST_SHARE = 0.95
_MAX_GAP_WORDS = 3
# with fewer different values, units may be names: 2D and 3D
_LEAST_VALUES = 3
_MAX_CODES = 10
_WORDS = "booleans in words"

_CODE = re.compile(r"\s*0\d")
_PLAIN = {
    point: re.compile(rf"[-+]?(\d+{mark}?\d*|{mark}\d+)(e[-+]?\d+)?", re.IGNORECASE | re.ASCII)
    for point, mark in ((".", r"\."), (",", ","))
}  # numbers without any sign or unit, by their decimal separator
_CURRENCY = (
    r"(?:(?:US|AU|CA|NZ|HK|A|C|R|S)?\$|[€£¥₹₩₽₺₪฿₫]|(?:USD|EUR|GBP|CHF|JPY|INR|CNY|AUD|CAD|SEK|NOK|"
    r"DKK|PLN|CZK|BRL|MXN|ZAR|Euro|EURO|kr|Kr|zł|Kč|Rs)\b\.?)"
)
_PARTED = (
    r"\d{1,3}(?:[,.'\u2019 \u00a0\u202f_]\d{3})+(?:[.,]\d+)?|\d{1,2}(?:,\d{2})+,\d{3}(?:\.\d+)?"
)
_BLANK = re.compile("['\u2019 \u00a0\u202f_]")
_READABLE = {
    point[-1]: re.compile(
        rf"(?:\d+|[1-9]\d{{0,2}}(?:{mark}\d{{3}})+|\d{{1,3}}(?: \d{{3}})+{more})(?:{point}\d*)?"
        rf"|{point}\d+"
    )
    for point, mark, more in ((r"\.", ",", r"|\d{1,2}(?:,\d{2})+,\d{3}"), (",", r"\.", ""))
}  # by the decimal separator, with groups of thousands, or of hundreds as in India
_UNIT = r"%|‰|°[CF]?|[^\W\d_]{1,12}[²³]?\.?(?:/[^\W\d_]{1,8}[²³]?)?"
_NUMBER = re.compile(
    r"(?P<open>\(\s*)?(?P<about>[<>≤≥]=?|[~≈±'])?\s*[-+\u2212\u2013]?\s*"
    rf"(?P<currency>{_CURRENCY})?\s*[-\u2212\u2013]?"
    rf"(?P<digits>(?a:{_PARTED}|\d+[.,]?\d*|[.,]\d+))(?P<plus>\+)?"
    rf"(?P<space>\s*)(?:(?P<after>{_CURRENCY})|(?P<unit>{_UNIT}))?(?(open)\s*\))"
)
_SCALES = frozenset({2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 32, 64, 100})
_FRACTION = re.compile(r"(?:(\d+) )?(\d+)/(\d+)")
_MAGNITUDES = {"k": "e3", "K": "e3", "M": "e6", "B": "e9", "bn": "e9"}
_BOOLEANS = (
    *(("yes", "no"), ("y", "n"), ("true", "false"), ("t", "f"), ("on", "off"), ("ja", "nein")),
    *(("j", "n"), ("wahr", "falsch"), ("oui", "non"), ("vrai", "faux"), ("si", "no"), ("sí", "no")),
    *(("sim", "não"), ("tak", "nie"), ("da", "ne"), ("ja", "nej"), ("ja", "nee"), ("kyllä", "ei")),
)


@dataclass(frozen=True, slots=True)
class TextNumbers:
    """Numbers (or booleans, as `what` says) in a text column, with an `example`.

    `code` is the line of pandas that reads them from the column `name`. `needs_decimal` is true if
    they only have a decimal comma. `words` mean missing values, if nothing else in the column is
    text. `is_plain` is true if only the type of the column is wrong.
    """

    name: str
    what: str
    example: str
    code: str
    needs_decimal: bool = False
    words: tuple[str, ...] = ()
    is_plain: bool = False

    def __str__(self) -> str:
        return f"{self.what}, such as '{self.example}'"

    @property
    def is_boolean(self) -> bool:
        """Whether it holds two words for true and false."""
        return self.what == _WORDS

    def fix(self, file: CsvFile | None, missing: Iterable[str] = ()) -> str:
        """How to fix it; `file` is None if the table is not a CSV file.

        `missing` are the words that already mean a missing value.
        """
        if file is None:
            codes = f"; or, if they are codes, add '{self.name}' to data.categorical_columns"
            return f"read them with pandas: {self.code}{codes if self.is_plain else ''}"
        if self.words:
            words = [*dict.fromkeys(["", *missing, *self.words])]
            return f"write missing_values = {toml_value(words)} in [data]"
        if self.needs_decimal and file.dialect.separator != ",":
            return 'write decimal = "," in [data]'
        gaps = [*dict.fromkeys(["", *missing])]
        code = file.rewrite_hint(self.code, f"na_values={{{self.name!r}: {gaps!r}}}")
        return f"read them with pandas: {code}"


def text_numbers(
    column: pd.Series[Any], decimal: str = ".", *, has_strays: bool = False
) -> TextNumbers | None:
    """The numbers or booleans that the text in a column means; None if it is just text.

    Plain numbers have this `decimal` separator. With `has_strays`, a few values may be other text
    among plain numbers: in a CSV file, they are the only reason why the column is text.
    """
    if not isinstance(column.dtype, pd.StringDtype):
        return None
    values = [*map(str, column.iloc[:_MAX_ROWS].dropna().unique()[:_MAX_VALUES])]
    texts = [*dict.fromkeys(text for value in values if (text := value.strip()))]
    if len(texts) < 2:
        return None
    name = str(column.name)
    return (
        _booleans(texts, name)
        or _fractions(texts, name)
        or _numbers(values, texts, name, decimal)
        or _with_gaps(values, name, decimal)
        or _plain_numbers(texts, column, decimal, has_strays=has_strays)
    )


def gap_words(frame: pd.DataFrame, decimal: str = ".") -> list[str]:
    """The words that may mean missing numbers in some column of a table."""
    found = (text_numbers(frame[name], decimal) for name in frame)
    return sorted({word for numbers in found if numbers is not None for word in numbers.words})


def _with_points(name: str, decimal: str) -> str:
    """The pandas code for a column of numbers that `pd.to_numeric` can read."""
    return f"df[{name!r}]" if decimal == "." else f'df[{name!r}].str.replace("{decimal}", ".")'


def _with_gaps(values: Sequence[str], name: str, decimal: str) -> TextNumbers | None:
    """Plain numbers, among a few words for missing ones."""
    others = [value for value in values if not _PLAIN[decimal].fullmatch(value.strip())]
    numbers = [value for value in values if _PLAIN[decimal].fullmatch(value.strip())]
    if not 0 < len(others) <= _MAX_GAP_WORDS or len(numbers) < 2:
        return None
    if not all(map(means_missing, others)) or any(map(_CODE.match, numbers)):
        return None
    return TextNumbers(
        name,
        f"numbers, and {listed([repr(word) for word in others])} that may mean missing ones",
        numbers[0],
        f'df[{name!r}] = pd.to_numeric({_with_points(name, decimal)}, errors="coerce")',
        words=tuple(others),
    )


def _booleans(texts: Sequence[str], name: str) -> TextNumbers | None:
    read = f"df[{name!r}]"
    words = {text.lower() for text in texts}
    for true, false in _BOOLEANS:
        if words == {true, false}:
            code = f"{read} = {read}.str.strip().str.lower().map({{{true!r}: 1, {false!r}: 0}})"
            return TextNumbers(name, _WORDS, texts[0], code)
    return None


def _fractions(texts: Sequence[str], name: str) -> TextNumbers | None:
    read = f"df[{name!r}]"
    found = [match for text in texts if (match := _FRACTION.fullmatch(text))]
    plain = sum(_PLAIN["."].fullmatch(text) is not None for text in texts)
    if not found or len(texts) < _LEAST_VALUES or len(found) + plain < _LEAST_SHARE * len(texts):
        return None
    parts = [(int(above), int(below)) for _, above, below in (match.groups() for match in found)]
    scales = {below for _, below in parts}
    is_fraction = scales <= _SCALES and all(above <= below for above, below in parts)
    if 0 in scales or not (is_fraction or len(scales) == 1):
        return None  # dates, or pairs such as blood pressures
    code = f"{read} = {read}.dropna().map(lambda text: float(sum(map(Fraction, text.split()))))"
    code = f"from fractions import Fraction; {code}"
    return TextNumbers(name, "fractions written as text", found[0][0], code)


def _numbers(
    values: Sequence[str], texts: Sequence[str], name: str, decimal: str
) -> TextNumbers | None:
    """Numbers with a sign, a unit or separators; `texts` are the `values` without outer blanks."""
    read = f"df[{name!r}]"
    matches = [match for text in texts if (match := _NUMBER.fullmatch(text))]
    signed = [match for match in matches if not _PLAIN[decimal].fullmatch(match[0])]
    if not signed or len(matches) < _LEAST_SHARE * len(texts) or _are_names(texts, signed):
        return None
    units = _units(signed)
    if len(units) > 1 and not units <= _MAGNITUDES.keys():
        return None
    point = _decimal_of([match["digits"] for match in matches], decimal)
    if not point:
        return None
    is_decimal = point == ","
    code = "" if all(value == value.strip() for value in values) else ".str.strip()"
    code += "".join(_steps(signed, units & _MAGNITUDES.keys(), is_decimal=is_decimal))
    errors = "" if len(matches) == len(texts) else ', errors="coerce"'
    is_only = all(re.fullmatch(r"[-+]?\d*,\d+", match[0]) for match in signed)
    return TextNumbers(
        name,
        "numbers written as text",
        signed[0][0],
        f"{read} = pd.to_numeric({read}{code}{errors})",
        needs_decimal=decimal == "." and is_decimal and is_only,
    )


def _plain_numbers(
    texts: Sequence[str], column: pd.Series[Any], decimal: str, *, has_strays: bool
) -> TextNumbers | None:
    """Plain numbers, in a column that some program wrote as text; `texts` are its first values.

    A few different integers may be codes of categories.
    """
    least = _LEAST_SHARE if has_strays else 1
    plain = _plain_among(texts, decimal, least)
    if not plain or (len(plain) <= _MAX_CODES and all(map(str.isdigit, plain))):
        return None
    every = {str(value).strip() for value in column.dropna().unique()}  # other text may follow
    numbers = _plain_among(every - {""}, decimal, least)
    if not numbers:
        return None
    name = str(column.name)
    errors = "" if len(numbers) == len(every) else ', errors="coerce"'
    code = f"df[{name!r}] = pd.to_numeric({_with_points(name, decimal)}{errors})"
    return TextNumbers(name, "numbers written as text", plain[0], code, is_plain=True)


def _plain_among(texts: Collection[str], decimal: str, least: float) -> list[str]:
    """The plain numbers; none if they are less than this share, or some is written like a code."""
    plain = [text for text in texts if _PLAIN[decimal].fullmatch(text)]
    is_code = len(plain) < least * len(texts) or any(map(_CODE.match, plain))
    return [] if is_code else plain


def _are_names(texts: Sequence[str], signed: Sequence[re.Match[str]]) -> bool:
    """Whether text may read as numbers by chance: 2D and 3D, or postal codes."""
    has_sign = all(
        match["currency"] or match["after"] or match["unit"] == "%" or match["space"]
        for match in signed
    )
    if len(texts) < (2 if has_sign else _LEAST_VALUES):
        return True
    bounds = [match["digits"] for match in signed if match["about"]]
    if any(digits in texts or bounds.count(digits) > 1 for digits in bounds):
        return True  # <5 and 5 are different ranges
    return all(" " in m["digits"] for m in signed) and len({len(text) for text in texts}) == 1


def _units(signed: Sequence[re.Match[str]]) -> set[str]:
    """The units, in the singular; money and per cent need none."""
    units = {match["unit"].rstrip(".") for match in signed if match["unit"] not in (None, "%", "‰")}
    return units if units <= _MAGNITUDES.keys() else {unit.removesuffix("s") for unit in units}


def _decimal_of(digits: Sequence[str], usual: str) -> str:
    """The decimal separator with which all numbers can be read; empty if they contradict.

    The `usual` one if both are possible, as for 1,234.
    """
    texts = [_BLANK.sub(" ", text) for text in digits]
    possible = [one for one in ".," if all(map(_READABLE[one].fullmatch, texts))]
    return usual if usual in possible else next(iter(possible), "")


def _steps(
    signed: Sequence[re.Match[str]], magnitudes: set[str], *, is_decimal: bool
) -> Iterator[str]:
    """The calls that reduce the text to plain numbers."""
    if any(match["open"] for match in signed):
        yield r'.str.replace(r"^\((.*)\)$", r"-\1", regex=True)'
    for minus in "\u2212\u2013":
        if any(minus in match[0] for match in signed):
            yield f'.str.replace("{minus}", "-")'
    if magnitudes:
        for magnitude in sorted(magnitudes):
            power = _MAGNITUDES[magnitude]
            yield f'.str.replace(r"(?<=\\d)\\s*{magnitude}$", "{power}", regex=True)'
    elif any(letter.isalpha() for match in signed for letter in match[0]):
        yield r'.str.replace(r"[^\W\d_]+\.?", "", regex=True)'
    point, more = ("," if is_decimal else "."), ("e" if magnitudes else "")
    yield f'.str.replace(r"[^\\d{point}{more}-]", "", regex=True)'
    if is_decimal:
        yield '.str.replace(",", ".")'
