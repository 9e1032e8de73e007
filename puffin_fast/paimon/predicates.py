"""Translates pypaimon's predicates to PyArrow's expressions; a predicate without an exact translation is refused.

pypaimon's own translation may select too many rows, because pypaimon evaluates the predicate again.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from puffin_fast.errors import InvalidInputError, NotFoundError, UnsupportedError
from puffin_fast.rows.filters.like import match_like

_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "equal": operator.eq,
    "notEqual": operator.ne,
    "lessThan": operator.lt,
    "lessOrEqual": operator.le,
    "greaterThan": operator.gt,
    "greaterOrEqual": operator.ge,
}
_MATCH: dict[str, Callable[[Any, str], Any]] = {
    "startsWith": pc.starts_with,
    "endsWith": pc.ends_with,
    "contains": pc.match_substring,
    "like": match_like,
}


def columns_of(predicate: Any) -> set[str]:
    """Returns the columns of a predicate."""
    if predicate.method in ("and", "or"):
        return set().union(*map(columns_of, predicate.literals))
    return {predicate.field}


def without_floats(predicate: Any, schema: pa.Schema) -> Any:
    """Returns a predicate that is true wherever another one is, without conditions on floats; None if none is left.

    pypaimon compares literals with the bounds of files, which do not say whether NaN is in the file, or are NaN.
    """
    if predicate.method not in ("and", "or"):
        return None if pa.types.is_floating(schema.field(predicate.field).type) else predicate
    parts = [without_floats(one, schema) for one in predicate.literals]
    kept = [part for part in parts if part is not None]
    if not kept or (predicate.method == "or" and len(kept) < len(parts)):
        return None
    return predicate.new_literals(kept)


def expression_of(predicate: Any, schema: pa.Schema) -> pc.Expression:
    """Returns the expression that is true for the rows that a predicate matches.

    Args:
        predicate: a predicate of pypaimon.

    Raises:
        NotFoundError: a column does not exist.
        InvalidInputError: a literal does not fit the type of its column.
        UnsupportedError: the method of a predicate is unknown.
    """
    method, literals = predicate.method, list(predicate.literals or ())
    if method in ("and", "or"):
        combine = operator.and_ if method == "and" else operator.or_
        return reduce(combine, [expression_of(one, schema) for one in literals])
    name = predicate.field
    if name not in schema.names:
        raise NotFoundError(f"no column {name}; the table has {', '.join(schema.names)}")
    field, kind = pc.field(name), schema.field(name).type

    def value(literal: Any) -> pa.Scalar:
        try:
            return pa.scalar(literal, kind)
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            raise InvalidInputError(f"column {name} ({kind}): {literal!r}: {error}") from error

    if method == "isNull":
        return field.is_null()
    if method == "isNotNull":
        return field.is_valid()
    if method in ("in", "notIn"):
        found = field.isin(_set([value(one).as_py() for one in literals if one is not None], kind))
        if method == "in":
            return found
        return pc.scalar(False) if None in literals else ~found & field.is_valid()
    if None in literals:  # unknown for every row
        return pc.scalar(False)
    if method in _COMPARE:
        return _COMPARE[method](field, value(literals[0]))
    if method == "between":
        return (field >= value(literals[0])) & (field <= value(literals[1]))
    if method == "notBetween":  # true for NaN
        return ~((field >= value(literals[0])) & (field <= value(literals[1])))
    if method in _MATCH:
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            raise InvalidInputError(f"column {name} ({kind}): {method} needs text")
        return _MATCH[method](field, value(literals[0]).as_py())
    raise UnsupportedError(f"predicate {method!r} on column {name}: not known")


def _set(values: list[Any], kind: pa.DataType) -> pa.Array:
    """The values of a list that a row may be equal to: NaN equals none, and Arrow's hashes of 0.0 and -0.0 differ."""
    if pa.types.is_floating(kind):
        values = [value for value in values if value == value] + [0.0, -0.0] * (0.0 in values)
    return pa.array(values, kind)
