"""Parses the text of row filters to PyIceberg expressions; docs/filters.md describes the text.

    text       = filter [ ";" ]
    filter     = conjunction { OR conjunction }
    conjunction = negation { AND negation }
    negation   = { NOT } ( "(" filter ")" | TRUE | FALSE | predicate )
    predicate  = column operator literal | literal operator column | column "%" integer operator integer
               | column IS [ NOT ] ( NULL | NAN )
               | column [ NOT ] ( IN "(" literal { "," literal } ")"
                                | BETWEEN literal AND literal | ( LIKE | ILIKE ) string [ ESCAPE string ] )
    literal    = number | string | X string | TRUE | FALSE | ( DATE | TIME | TIMESTAMP | TIMESTAMPTZ ) string
    column     = name { "." name }

PyIceberg's own parser is not used: it reads ``_`` in LIKE literally and has no escape character except before ``%``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeAlias

from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNaN,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    NotEqualTo,
    Or,
    Reference,
)
from pyiceberg.expressions.literals import Literal, literal

from puffin_fast._pyiceberg.set_values import among
from puffin_fast.columns.decimals import as_number
from puffin_fast.errors import InvalidInputError
from puffin_fast.rows.filters.like import Like
from puffin_fast.rows.filters.literals import TimeText
from puffin_fast.rows.filters.remainder import COMPARISONS, Remainder

_TOKEN = re.compile(
    r"""(?P<blob>[xX]'[^']*')
      | (?P<string>'(?:[^']|'')*')
      | (?P<quoted>"(?:[^"]|"")+")
      | (?P<numbers>\(\s*+(?:-?[0-9]{1,18}\s*+,\s*+){15,}-?[0-9]{1,18}\s*+\))
      | (?P<strings>\(\s*+(?:'[^']*+'\s*+,\s*+){15,}'[^']*+'\s*+\))
      | (?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)
      | (?P<word>[^\W\d][\w$]*)
      | (?P<symbol><=|>=|<>|!=|==|[=<>(),.;*/%|+-])""",
    re.VERBOSE,
)


_Comparison: TypeAlias = Callable[..., BooleanExpression]

_OPERATORS: dict[str, tuple[_Comparison, _Comparison]] = {
    "<": (LessThan, GreaterThan),
    "<=": (LessThanOrEqual, GreaterThanOrEqual),
    ">": (GreaterThan, LessThan),
    ">=": (GreaterThanOrEqual, LessThanOrEqual),
    "=": (EqualTo, EqualTo),
    "==": (EqualTo, EqualTo),
    "!=": (NotEqualTo, NotEqualTo),
    "<>": (NotEqualTo, NotEqualTo),
}
"""For each operator: the predicate for `column operator literal`, and for `literal operator column`."""

_RESERVED = {"and", "or", "not", "is", "in", "null", "like", "between", "true", "false"}

SHOWN = 200
"""An error message repeats at most this many characters of a filter."""

_TIMES = {
    "date": (re.compile(r"\d{4}-\d\d-\d\d"), "2024-01-15"),
    "time": (re.compile(r"\d\d:\d\d(:\d\d(\.\d+)?)?"), "10:30:00"),
    "timestamp": (re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d.*)?"), "2024-01-15 10:30:00"),
    "timestamptz": (re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d.+"), "2024-01-15 10:30:00+00:00"),
}
"""The words before typed literals, such as ``DATE '2024-01-15'``; the form of the text, and an example."""

_FUNCTIONS = {
    "lower": 'pc.utf8_lower(pc.field("{0}")) == "..."; ILIKE ignores the case',
    "upper": 'pc.utf8_upper(pc.field("{0}")) == "..."; ILIKE ignores the case',
    "length": 'pc.utf8_length(pc.field("{0}")) == 3',
    "trim": 'pc.utf8_trim_whitespace(pc.field("{0}")) == "..."',
    "abs": 'pc.abs(pc.field("{0}")) < 1',
    "round": 'pc.round(pc.field("{0}")) == 1',
    "year": 'pc.year(pc.field("{0}")) == 2024',
    "month": 'pc.month(pc.field("{0}")) == 1',
    "day": 'pc.day(pc.field("{0}")) == 15',
    "mod": "{0} % 2 = 0",
    "cast": "{0} = 5: a literal is converted to the type of its column",
    **dict.fromkeys(("contains", "instr", "has"), "{0} LIKE '%a%'"),
    **dict.fromkeys(("startswith", "starts_with", "prefix"), "{0} LIKE 'a%'"),
    **dict.fromkeys(("endswith", "ends_with"), "{0} LIKE '%a'"),
    **dict.fromkeys(("isnan", "is_nan"), "{0} IS NAN"),
    **dict.fromkeys(("isnull", "is_null", "isna"), "{0} IS NULL"),
    **dict.fromkeys(("notnull", "isnotnull", "is_not_null", "notna"), "{0} IS NOT NULL"),
    **dict.fromkeys(("isin", "is_in"), "{0} IN (1, 2)"),
    **dict.fromkeys(("between", "is_between"), "{0} BETWEEN 1 AND 5"),
    **dict.fromkeys(("date", "to_date"), "{0} >= '2024-01-15' AND {0} < '2024-01-16'"),
}
_ARITHMETIC = {
    "*": 'pc.field("{0}") * 2 > 6',
    "/": 'pc.field("{0}") / 2 > 6',
    "+": 'pc.field("{0}") + 2 > 6',
    "-": 'pc.field("{0}") - 2 > 6',
}
"""By a function or an operator: what to pass instead, with the name of the column."""

_VALUE = "a value is written into the text, or passed in an expression such as pyiceberg.expressions.EqualTo"
_NOW = (
    "the time is written as text, such as TIMESTAMP '2024-01-15 10:30:00'; seven days ago is, in Python, "
    """f"'{datetime.now(timezone.utc) - timedelta(days=7)}'\"; datetime.now() is for times without a zone"""
)
_MATCH = "LIKE 'a%' or LIKE '%a%' compares parts of text; pc.match_substring_regex is for regular expressions"
_HINTS = tuple(
    (re.compile(form, re.IGNORECASE), hint)
    for form, hint in {
        r"(?<=in )\s*\[": "a list is in parentheses: IN (1, 2)",
        r"[`\[]": 'a column needs no quotes, or "double quotes"',
        r"&": "write AND",
        r"\|(?!\|)": "write OR",
        r"!": "write NOT",
        r"'[^']*$": "the text has no ' at its end",
        r'"[^"]*$': 'the name has no " at its end',
        r"::": "a literal is converted to the type of its column, so a filter has no casts",
        "[\u2018\u2019\u201c\u201d]": "text needs straight 'single quotes'",
        r":\w|\?|\$\d|\{|@|%[s(d]": _VALUE,
        r"--|/\*|#": "a filter has no comments",
        r"(?<=\b0)x[\da-f]+": "write a decimal number",
        r"(?<=\d)_\d": "write digits without _",
        r"(?<=\b\d{4})-\d\d-\d\d": "a date needs quotes, such as '2024-01-15'",
        r"none\b": "write IS NULL",
        r"~|(rlike|regexp|similar|startswith|contains)\b": _MATCH,
        r"(now|today|getdate|sysdate) *\(|(current_date|current_timestamp|current_time|localtimestamp)\b": _NOW,
        r"(date_?(sub|add|diff|trunc)|timestamp_?(sub|add|diff)) *\(|([-+] *)?interval\b": _NOW,
    }.items()
)
"""By the form of the text where parsing stopped: what to write instead."""

_STATEMENT = re.compile(r"\s*(select|delete|update|where|from)\s+[\w*\"]", re.IGNORECASE)
"""A statement, or a clause, in place of its condition."""

_BEYOND = "functions, arithmetic and other columns need a PyArrow expression, or SQL on Spark"


def parse_filter(text: str) -> BooleanExpression:
    """Parses a filter to an unbound expression of PyIceberg's predicates, `Like` and `Remainder`.

    Raises:
        InvalidInputError: the text does not parse; the message gives the position.
    """
    try:
        return _Parser(text).parse()
    except RecursionError:
        raise InvalidInputError(f"filter: nested too deeply, {len(text):,} characters") from None


def shown_text(text: str) -> str:
    """The text of a filter for error messages."""
    return repr(text if len(text) <= SHOWN else f"{text[:SHOWN]}...")


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[str, str, int]] = []  # kind, text, offset
        at = 0
        for found in _TOKEN.finditer(text):
            if text[at : found.start()].strip():
                break
            self._tokens.append((found.lastgroup or "", found[0], found.start()))
            at = found.end()
        rest = text[at:].lstrip()
        if rest:
            raise self._error(
                len(text) - len(rest), f"expected a column, a literal or an operator, found {rest[:10]}"
            )
        self._tokens.append(("end", "", len(text)))
        self._at = 0

    def parse(self) -> BooleanExpression:
        found = self._joined("or", Or, lambda: self._joined("and", And, self._negation))
        self._take(";")
        if self._tokens[self._at][0] != "end":
            raise self._expected("AND, OR or the end")
        return found

    def _joined(
        self, word: str, of: Callable[..., BooleanExpression], operand: Callable[[], BooleanExpression]
    ) -> BooleanExpression:
        operands = [operand()]
        while self._take(word):
            operands.append(operand())
        return of(*operands) if len(operands) > 1 else operands[0]

    def _negation(self) -> BooleanExpression:
        if self._take("not"):
            return Not(self._negation())
        if self._take("("):
            found = self._joined("or", Or, lambda: self._joined("and", And, self._negation))
            self._need(")")
            return found
        kind, word, _ = self._tokens[self._at]
        constant = kind == "word" and word.lower() in ("true", "false")
        if constant and self._tokens[self._at + 1][1] not in _OPERATORS:
            self._at += 1
            return AlwaysTrue() if word.lower() == "true" else AlwaysFalse()
        return self._predicate()

    def _predicate(self) -> BooleanExpression:
        kind, word, _ = self._tokens[self._at]
        if kind != "quoted" and (kind != "word" or word.lower() in _RESERVED or self._is_typed()):
            value = self._literal("a column or a literal")
            of = self._operator()[1]
            return of(term=self._column(), value=value)
        column = self._column()
        if self._take("%"):
            return self._remainder(column)
        if self._take("is"):
            negated = self._take("not")
            test = (
                IsNull(term=column)
                if self._take("null")
                else IsNaN(term=column)
                if self._take("nan")
                else None
            )
            if test is None:
                raise self._expected("NULL or NAN")
            return ~test if negated else test
        negated = self._take("not")
        found: BooleanExpression
        if self._take("in"):
            many = self._many()
            found = among(column, many) if many else In(term=column, values=set(self._literals()))
            return ~found if negated else found
        if self._take("between"):
            low = self._literal()
            self._need("and")
            found = And(
                GreaterThanOrEqual(term=column, value=low),
                LessThanOrEqual(term=column, value=self._literal()),
            )
        elif self._take("like"):
            found = self._like(column)
        elif self._take("ilike"):
            found = self._like(column, ignore_case=True)
        elif negated:
            raise self._expected("IN, BETWEEN, LIKE or ILIKE")
        else:
            of = self._operator(column)[0]
            return of(term=column, value=self._literal())
        return Not(found) if negated else found

    def _remainder(self, column: Reference) -> BooleanExpression:
        divisor = self._integer()
        if divisor == 0:
            raise self._error(self._tokens[self._at - 1][2], "expected a divisor that is not 0")
        found = _OPERATORS.get(self._tokens[self._at][1])
        if found is None:
            raise self._expected(f"an operator ({', '.join(_OPERATORS)})")
        self._at += 1
        of: Any = found[0]
        return Remainder(column, divisor, COMPARISONS[of], self._integer())

    def _integer(self) -> int:
        at = self._tokens[self._at][2]
        value = self._literal("an integer").value
        if not isinstance(value, int) or isinstance(value, bool):
            raise self._error(at, "expected an integer")
        return value

    def _is_typed(self) -> bool:
        """Whether a typed literal begins here, such as ``DATE '2024-01-15'``; a column may have the name ``date``."""
        kind, word, _ = self._tokens[self._at]
        return kind == "word" and word.lower() in _TIMES and self._tokens[self._at + 1][0] == "string"

    def _like(self, column: Reference, *, ignore_case: bool = False) -> BooleanExpression:
        at = self._tokens[self._at][2]
        pattern = self._string()
        escape = self._string() if self._take("escape") else "\\"
        try:
            return Like.of(column, pattern, escape, ignore_case=ignore_case)
        except ValueError as error:
            raise self._error(at, str(error)) from None

    def _operator(self, column: Reference | None = None) -> tuple[_Comparison, _Comparison]:
        found = _OPERATORS.get(self._tokens[self._at][1])
        if found is None:
            _, symbol, _ = self._tokens[self._at]
            hint = f"; {_BEYOND}{self._instead(column)}"
            if column is not None and symbol.lower() in ("", ")", "and", "or"):
                hint = f"; a boolean column is compared: {column.name} = TRUE"
            raise self._expected(
                f"an operator ({', '.join(_OPERATORS)}, IS, IN, BETWEEN, LIKE or ILIKE)", hint
            )
        self._at += 1
        return found

    def _instead(self, column: Reference | None) -> str:
        """What to write in place of arithmetic or a function of a column that was just read."""
        _, symbol, _ = self._tokens[self._at]
        if column is None:
            return ""
        if symbol == "(":
            method = column.name.rpartition(".")
            form, named = _FUNCTIONS.get(method[2].lower()), self._tokens[self._at + 1]
            name = method[0] or (named[1].strip('"') if named[0] in ("word", "quoted") else "...")
        else:
            form, name = _ARITHMETIC.get(symbol), column.name
        return "" if form is None else f", such as {form.format(name)}"

    def _column(self) -> Reference:
        names = [self._name()]
        while self._take("."):
            names.append(self._name())
        return Reference(".".join(names))

    def _name(self) -> str:
        kind, text, _ = self._tokens[self._at]
        if kind == "quoted":
            self._at += 1
            return text[1:-1].replace('""', '"')
        if kind != "word" or text.lower() in _RESERVED:
            hint = '; a column of this name needs "double quotes"' if kind == "word" else ""
            raise self._expected("a column", hint)
        self._at += 1
        return text

    def _many(self) -> list[int] | list[str] | None:
        """The values of a list that is one token: of many integers, or many strings without quotes in them."""
        kind, text, _ = self._tokens[self._at]
        if kind not in ("numbers", "strings"):
            return None
        self._at += 1
        return [*map(int, text[1:-1].split(","))] if kind == "numbers" else text.split("'")[1::2]

    def _literals(self) -> list[Literal[Any]]:
        self._need("(")
        found = [self._literal()]
        while self._take(","):
            found.append(self._literal())
        self._need(")")
        return found

    def _literal(self, wanted: str = "a literal") -> Literal[Any]:
        sign = "-" if self._take("-") else "+" if self._take("+") else ""
        kind, text, at = self._tokens[self._at]
        word = text.lower()
        if kind == "number":
            self._at += 1
            try:
                return literal(as_number(sign + text))
            except InvalidInputError as error:
                raise self._error(at, str(error)) from None
        if not sign and kind == "string":
            return literal(self._string())
        if not sign and kind == "blob":
            self._at += 1
            try:
                return literal(bytes.fromhex(text[2:-1]))
            except ValueError:
                raise self._error(at, f"expected pairs of hexadecimal digits, found {text}") from None
        if not sign and self._is_typed():
            self._at += 1
            start, value = self._tokens[self._at][2], self._string()
            form, example = _TIMES[word]
            if form.fullmatch(value) is None:
                raise self._error(
                    start, f"{text.upper()}: expected text such as '{example}', found {value!r:.40}"
                )
            return TimeText(value)
        if not sign and word in ("true", "false"):
            self._at += 1
            return literal(word == "true")
        if word in ("null", "nan"):
            raise self._expected(wanted, f"; no value is equal to it: write IS {word.upper()}")
        hint = "; text needs 'single quotes'" if kind == "quoted" else ""
        if kind == "word":
            quotes = "" if self._tokens[self._at + 1][1] == "(" else f"text needs quotes: '{text}'; "
            hint = f"; {quotes}{_BEYOND}"
        raise self._expected(wanted, hint)

    def _string(self) -> str:
        kind, text, _ = self._tokens[self._at]
        if kind != "string":
            raise self._expected("text in 'single quotes'")
        self._at += 1
        return text[1:-1].replace("''", "'")

    def _take(self, wanted: str) -> bool:
        kind, text, _ = self._tokens[self._at]
        found = kind in ("word", "symbol") and text.lower() == wanted
        self._at += found
        return found

    def _need(self, wanted: str) -> None:
        if not self._take(wanted):
            raise self._expected(wanted.upper())

    def _expected(self, wanted: str, hint: str = "") -> InvalidInputError:
        _, text, at = self._tokens[self._at]
        if wanted.startswith("AND") and self._text.startswith("||", at):
            hint = "; write OR"
        elif wanted.startswith("AND") and text in _OPERATORS:
            hint = "; a comparison has one operator: 1 < id AND id < 5"
        elif not self._text.strip():
            hint = "; 'true' is for all rows"
        found = text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
        return self._error(at, f"expected {wanted}, found {found or 'the end'}", hint)

    def _error(self, at: int, what: str, hint: str = "") -> InvalidInputError:
        if _STATEMENT.match(self._text):
            hint = "; write only the condition, the text after WHERE"
        else:
            hint = next((f"; {text}" for form, text in _HINTS if form.match(self._text, at)), hint)
        what += hint
        return InvalidInputError(f"filter {shown_text(self._text)}: at character {at + 1}: {what}")
