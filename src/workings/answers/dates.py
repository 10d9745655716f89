"""Dates in one spelling."""

import re

_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_MONTH = (r"(jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
          r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b\.?")
_DAY = r"(\d\d?)(?:st|nd|rd|th)?"
_DAY_FIRST = re.compile(rf"\b{_DAY}(?: of)? {_MONTH}(?:,? (\d{{4}}))?\b", re.IGNORECASE)
_MONTH_FIRST = re.compile(rf"\b{_MONTH} {_DAY}(?!\d)(?:,? (\d{{4}})\b)?", re.IGNORECASE)
_ISO = re.compile(r"\b(\d{4})-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])\b")


def dates_alike(text: str) -> str:
    """A text with its dates as day, short month and year in lower case.

    >>> dates_alike("on July 20, 1969"), dates_alike("1969-07-20"), dates_alike("May 3rd")
    ('on 20 jul 1969', '20 jul 1969', '3 may')
    """
    text = _ISO.sub(lambda date: f"{int(date[3])} {_MONTHS[int(date[2]) - 1]} {date[1]}", text)
    text = _MONTH_FIRST.sub(lambda date: _written(date[2], date[1], date[3]), text)
    return _DAY_FIRST.sub(lambda date: _written(date[1], date[2], date[3]), text)


def _written(day: str, month: str, year: str | None) -> str:
    return f"{int(day)} {month[:3].casefold()}" + (f" {year}" if year else "")
