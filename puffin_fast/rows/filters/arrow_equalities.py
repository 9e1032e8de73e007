"""The values that a PyArrow expression compares columns with, by ``==`` and `isin`.

PyArrow has no functions that take an expression apart. Its serialized form is an Arrow IPC file whose metadata lists
the expression in Polish notation, and whose columns are the literals:

```
call: and_kleene | call: equal | field_ref: id | literal: 0 | end: equal | call: is_in | field_ref: s | options: 1 | …
```
Any other form, as of another version, has no values: the expression is then evaluated for all rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from puffin_fast.columns.plain_types import plain

_PAIR = re.compile(r"^(call|end|field_ref|nested_field_ref|literal|options): '(.*)'$")
_PLAIN_NAME = re.compile(r"[\w .-]+")
"""Names of columns that cannot be taken for another line of the metadata."""

_AND = ("and", "and_kleene")


class _Call(NamedTuple):
    name: str
    arguments: list[_Call | tuple[str, str]]
    options: int | None


def equal_columns(expression: pc.Expression, types: Mapping[str, pa.DataType]) -> dict[str, pa.Array]:
    """Returns the values that columns are compared with: a row that matches has one of the values of each.

    Args:
        types: the plain types of columns by name; of others nothing is returned.
    """
    try:
        file = pa.ipc.open_file(expression.__reduce__()[1][0])
        literals = file.read_all()
        lines = file.schema.to_string(show_schema_metadata=True, truncate_metadata=False)
        _, _, lines = lines.partition("-- schema metadata --\n")
        pairs = iter([_pair(line) for line in lines.splitlines()])
        kind, name = next(pairs)
        root = _parsed(pairs, name)
        if kind != "call" or next(pairs, None) is not None:
            return {}
        found: dict[str, pa.Array] = {}
        for call in _conjuncts(root):
            named = _values(call, literals)
            if named is None or named[0] not in types or named[0] in found:
                continue
            values = _as_type(named[1], types[named[0]])
            if values is not None:
                found[named[0]] = values
        return found
    except (
        pa.ArrowException,
        ValueError,
        LookupError,
        StopIteration,
        TypeError,
        AttributeError,
        RecursionError,
    ):
        return {}


def _pair(line: str) -> tuple[str, str]:
    found = _PAIR.match(line)
    if found is None or (found[1] == "field_ref" and not _PLAIN_NAME.fullmatch(found[2])):
        raise ValueError(line)
    return found[1], found[2]


def _parsed(pairs: Iterator[tuple[str, str]], name: str) -> _Call:
    """Reads the rest of a call."""
    call = _Call(name, [], None)
    for kind, value in pairs:
        if kind == "end":
            if value != name:
                raise ValueError(value)
            return call
        if kind == "options":
            call = call._replace(options=int(value))
        else:
            call.arguments.append(_parsed(pairs, value) if kind == "call" else (kind, value))
    raise ValueError(name)


def _conjuncts(root: _Call) -> Iterator[_Call]:
    left = [root]
    while left:
        call = left.pop()
        if call.name in _AND:
            left += [argument for argument in call.arguments if isinstance(argument, _Call)]
        else:
            yield call


def _values(call: _Call, literals: pa.Table) -> tuple[str, pa.Array] | None:
    """The column and the values of a comparison; None for another condition, or if null is among the values."""
    kinds = dict(argument for argument in call.arguments if not isinstance(argument, _Call))
    if any(isinstance(argument, _Call) for argument in call.arguments):
        return None
    if call.name == "equal" and kinds.keys() == {"field_ref", "literal"} and len(call.arguments) == 2:
        values = literals.column(int(kinds["literal"])).combine_chunks()
    elif call.name == "is_in" and kinds.keys() == {"field_ref"} and call.options is not None:
        (values,) = literals.column(call.options).combine_chunks().field("value_set")
        values = values.values
    else:
        return None
    return None if values.null_count else (kinds["field_ref"], values)


def _as_type(values: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """The values in the type of a column, if this changes none; integers that no row can have are left out.

    Raises:
        pyarrow.ArrowInvalid: a decimal has more digits than those of the column.
    """
    values, types = plain(values), pa.types
    if values.type == kind and not types.is_floating(kind):
        return values
    if types.is_signed_integer(values.type) and types.is_signed_integer(kind):
        high = (1 << (kind.bit_width - 1)) - 1
        wide = values.cast(pa.int64())
        return wide.filter(pc.and_(pc.greater_equal(wide, -high - 1), pc.less_equal(wide, high))).cast(kind)
    if types.is_decimal128(values.type) and types.is_decimal128(kind):
        return values.cast(kind)
    for texts in (types.is_string, types.is_large_string), (types.is_binary, types.is_large_binary):
        if any(is_text(values.type) for is_text in texts) and any(is_text(kind) for is_text in texts):
            return values.cast(kind)
    return None
