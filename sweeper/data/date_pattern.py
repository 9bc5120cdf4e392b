"""The forms of dates and times in text; without pandas, which most commands need not import."""

from __future__ import annotations

_MONTH = r"(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_DAY_OF_WEEK = r"((?i:mon|tue|wed|thu|fri|sat|sun)[a-z]*\.?,? )?"
DATE = (
    rf"{_DAY_OF_WEEK}(\d{{4}}[-/.]\d{{1,2}}[-/.]\d{{1,2}}|\d{{1,2}}[-/.]\d{{1,2}}[-/.]\d{{4}}"
    r"|\d{1,2}/\d{1,2}/\d{2}"
    rf"|\d{{1,2}}[-/. ]+{_MONTH}[-/., ]+\d{{2,4}}|{_MONTH} \d{{1,2}},? \d{{4}})([ T].*)?"
    rf"|\d{{4}}[-/](0?[1-9]|1[0-2])|{_MONTH}[-/ ]\d{{2,4}}|\d{{4}}[-/ ]?Q[1-4]|Q[1-4][-/ ]\d{{4}}"
    r"|([01]?\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d+)?)?( ?[AaPp]\.?[Mm]\.?)?"
)
"""Text such as 2026-01-31, 31.1.2026 or 31 Jan 2026, maybe with a time; or a month or time."""
