"""SQL's LIKE as a predicate. PyIceberg only has `StartsWith`."""

from __future__ import annotations

import re
from typing import Any

import pyarrow.compute as pc
from pyiceberg.expressions import (
    BoundPredicate,
    BoundTerm,
    EqualTo,
    NotNull,
    StartsWith,
    UnboundPredicate,
    UnboundTerm,
)
from pyiceberg.expressions.literals import literal
from pyiceberg.schema import Schema
from pyiceberg.types import StringType

_PART = re.compile(r"\\(?P<escaped>.)|(?P<wildcard>[%_])|(?P<plain>.)", re.DOTALL)


def match_like(values: Any, pattern: str, *, ignore_case: bool = False) -> Any:
    """Returns whether each string matches a pattern, as `Like` has it.

    Args:
        values: an Arrow array of strings, or an expression.
        pattern: ``%`` matches any text, ``_`` one character; a backslash escapes the next character.
        ignore_case: whether upper and lower case are equal, as in ILIKE.
    """
    if "\\\\" not in pattern:
        return pc.match_like(values, pattern, ignore_case=ignore_case)
    parts = []  # Arrow 26 takes `\\\\` of patterns such as `%a` and `a%%` for two backslashes
    for part in _PART.finditer(pattern):
        wildcard = {"%": ".*", "_": "."}.get(part["wildcard"] or "")
        parts.append(wildcard or _quoted(part["escaped"] or part["plain"]))
    return pc.match_substring_regex(values, f"(?s)^{''.join(parts)}$", ignore_case=ignore_case)


def _quoted(character: str) -> str:
    """A character as a regular expression of RE2."""
    return f"\\{character}" if character in r"\.+*?()|[]{}^$" else character


class Like(UnboundPredicate):
    """Whether a string column matches a pattern, or does not match it (`negated`).

    Attributes:
        pattern: ``%`` matches any text, ``_`` one character; a backslash escapes the next character.
        negated: whether this is NOT LIKE.
        ignore_case: whether this is ILIKE.
    """

    pattern: str
    negated: bool
    ignore_case: bool

    def __init__(
        self, term: str | UnboundTerm, pattern: str, negated: bool = False, ignore_case: bool = False
    ) -> None:
        super().__init__(term, pattern=pattern, negated=negated, ignore_case=ignore_case)

    @classmethod
    def of(cls, term: UnboundTerm, pattern: str, escape: str, *, ignore_case: bool = False) -> Like:
        """Makes a predicate from a pattern with any escape character.

        Raises:
            ValueError: `escape` is not one character, or is followed in the pattern by something else than
                ``%``, ``_`` or itself.
        """
        if len(escape) != 1:
            raise ValueError(f"ESCAPE: expected one character, found {escape!r}")
        parts, characters = [], iter(pattern)
        for character in characters:
            if character == escape:
                following = next(characters, "")
                if not following or following not in ("%", "_", escape):
                    raise ValueError(
                        f"LIKE {pattern!r}: expected %, _ or {escape} after the escape character {escape}, "
                        f"found {following or 'the end'}; write {escape}{escape} for {escape} itself"
                    )
                parts.append(f"\\{following}")
            else:
                parts.append("\\\\" if character == "\\" else character)
        return cls(term, "".join(parts), ignore_case=ignore_case)

    def __eq__(self, other: Any) -> bool:
        same = isinstance(other, Like) and self.term == other.term
        return same and self._values() == other._values()

    def _values(self) -> tuple[str, bool, bool]:
        return self.pattern, self.negated, self.ignore_case

    def __repr__(self) -> str:
        name = getattr(self.term, "name", self.term)
        pattern = self.pattern.replace("'", "''")
        return f"{name} {'NOT ' * self.negated}{'I' * self.ignore_case}LIKE '{pattern}'"

    __str__ = __repr__

    def __invert__(self) -> Like:
        return Like(self.term, self.pattern, not self.negated, self.ignore_case)

    def bind(self, schema: Schema, case_sensitive: bool = True) -> BoundLike:
        """Binds the predicate to a column of a schema.

        Raises:
            TypeError: the column is not a string.
        """
        term = self.term.bind(schema, case_sensitive)
        kind = term.ref().field.field_type
        if not isinstance(kind, StringType):
            raise TypeError(f"LIKE: expected a column of type string, found {kind}")
        return BoundLike(term, *self._values())

    @property
    def as_bound(self) -> type[BoundPredicate]:
        return BoundLike

    def simplified(self) -> UnboundPredicate:
        """An equal predicate of PyIceberg (`EqualTo`, `StartsWith` or its negation) if there is one, else this one."""
        prefix, rest = self._split()
        if rest not in ("", "%") or self.ignore_case:
            return self
        value = literal(prefix)
        plain = StartsWith(term=self.term, value=value) if rest else EqualTo(term=self.term, value=value)
        return ~plain if self.negated else plain

    def weakened(self) -> UnboundPredicate:
        """A weaker predicate that PyIceberg can evaluate on bounds: it is true wherever this one is true."""
        prefix, _ = self._split()
        if prefix and not self.negated and not self.ignore_case:
            return StartsWith(term=self.term, value=literal(prefix))
        return NotNull(term=self.term)

    def _split(self) -> tuple[str, str]:
        """The text before the first wildcard, and the rest of the pattern from that wildcard."""
        prefix = ""
        for part in _PART.finditer(self.pattern):
            if part["wildcard"]:
                return prefix, self.pattern[part.start() :]
            prefix += part["escaped"] or part["plain"]
        return prefix, ""


class BoundLike(BoundPredicate):
    """`Like`, bound to a column of a schema."""

    pattern: str
    negated: bool
    ignore_case: bool

    def __init__(self, term: BoundTerm, pattern: str, negated: bool, ignore_case: bool) -> None:
        super().__init__(term, pattern=pattern, negated=negated, ignore_case=ignore_case)

    def __invert__(self) -> BoundLike:
        return BoundLike(self.term, self.pattern, not self.negated, self.ignore_case)

    @property
    def as_unbound(self) -> type[UnboundPredicate]:
        return Like
