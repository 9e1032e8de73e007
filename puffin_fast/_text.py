"""Text for messages: text from files for a terminal, and values of arguments in errors."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from datetime import date, time, timedelta
from difflib import get_close_matches
from numbers import Number

JOINERS = "\u200c\u200d"
"""Zero-width characters that scripts and emoji need; they do nothing to a terminal."""


def printable(text: str) -> str:
    r"""Replaces control characters, which could clear the screen or set its title, by Python's escapes.

    Escaped are the characters that `str.isprintable` does not count as printable: C0 and C1 controls, line
    ends, direction marks, unpaired surrogates.

    >>> printable("a\x1b[2Jb")
    'a\\x1b[2Jb'
    """
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in JOINERS else c.encode("unicode_escape").decode() for c in text
    )


def as_count(text: str | None) -> int | None:
    """The number that a text states in at most 19 digits, as those of 64 bits; None for other texts.

    >>> as_count("17"), as_count("n/a"), as_count("9" * 5000)
    (17, None, None)
    """
    return int(text) if text is not None and text.isdecimal() and len(text) <= MOST_DIGITS else None


MOST_DIGITS = 19


def counted(n: int, noun: str) -> str:
    """A number of things.

    >>> counted(1, "data file"), counted(2000, "data file")
    ('1 data file', '2,000 data files')
    """
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def middle_cut(text: str, length: int) -> str:
    """A text with at most a number of characters: of a longer one, its beginning and its end.

    >>> middle_cut("data/00000-0-e3ba1581.parquet", 20)
    'data/0000…81.parquet'
    """
    if len(text) <= length:
        return text
    tail = length // 2
    return f"{text[: length - tail - 1]}…{text[-tail:] if tail else ''}"


MOST_NAMES = 40
"""An error lists at most this many names of columns."""


def no_column(name: str, known: Iterable[str], whole: str = "the table has") -> str:
    """What an error says about a column that does not exist: a near name, and the names that there are.

    A near name has another case, is the column of ``alias.column``, or is similar.

    >>> no_column("custmer", ["id", "customer"])
    'no column custmer; did you mean customer; the table has id, customer'
    """
    names = list(dict.fromkeys(known))
    lower = {other.lower(): other for other in names}
    last = name.lower().rpartition(".")[2]
    near = [last] if last in lower else get_close_matches(name.lower(), lower, n=1)
    more = f" and {len(names) - MOST_NAMES:,} more" if len(names) > MOST_NAMES else ""
    listed = f"{whole} {', '.join(names[:MOST_NAMES]) or 'none'}{more}"
    if near:
        return f"no column {name}; did you mean {lower[near[0]]}; {listed}"
    return f"no column {name}; {listed}"


MOST_SHOWN = 200
"""An error shows at most this many characters of an argument."""

_SHOWN = (str, bytes, Number, date, time, timedelta, os.PathLike, type)


def shown_argument(value: object) -> str:
    """An argument in an error message: its text, or its type where the text may be the rows of a table.

    >>> shown_argument("abc"), shown_argument([1, 2]), shown_argument([{"id": 1}])
    ("'abc'", '[1, 2]', 'a list')
    >>> import pyarrow
    >>> shown_argument(pyarrow.table({"id": [1]}))
    'a Table of pyarrow'
    """
    if not is_shown(value):
        name, library = type(value).__name__, type(value).__module__.partition(".")[0]
        shown = f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"
        return shown if library in ("builtins", "puffin_fast") else f"{shown} of {library}"
    try:
        text = repr(value)
    except ValueError:  # Python does not convert integers of thousands of digits to text
        return "an integer of thousands of digits"
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."


def is_shown(value: object) -> bool:
    """Whether the text of an argument has no rows: a name, a number, a time, a type, or a list of these."""
    items = value if isinstance(value, list | tuple | set | frozenset) else (value,)
    return all(item is None or isinstance(item, _SHOWN) for item in items)


_VALUES = (
    (r"Could not convert .+ with type ([\w.]+)", r"expected values of one type, found \1"),
    (r"Float value \S+ was truncated", "a number with a fraction was truncated"),
    (r"Integer value \S+ (not in range|is outside)", r"an integer is \1"),
    (r"Value \S+ too large to fit", "a value is too large to fit"),
    (r"Failed to parse string: '.*' as", "a text cannot be parsed as"),
    (r"(would lose data|out of bounds timestamp): -?\d+", r"\1"),
    (r"Decimal value \S+ does not fit", "a decimal does not fit"),
)
"""Messages of Arrow that show a value, and what is said instead."""


def without_values(error: BaseException) -> str:
    """The message of an error of Arrow without the values of rows that are known to be in it.

    >>> without_values(ValueError("Could not convert 'x' with type str: tried to convert to int64"))
    'expected values of one type, found str: tried to convert to int64'
    """
    texts = [str(part) for part in error.args]
    for pattern, instead in _VALUES:
        texts = [re.sub(pattern, instead, text, flags=re.DOTALL) for text in texts]
    return "; ".join(texts)
