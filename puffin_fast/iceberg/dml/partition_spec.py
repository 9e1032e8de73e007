"""Parses and checks the partition spec of a new table, and applies transforms to columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pyiceberg.exceptions import ValidationError
from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    TimeTransform,
    Transform,
    TruncateTransform,
    UnknownTransform,
    VoidTransform,
    YearTransform,
)

from puffin_fast._api.arguments import check_texts
from puffin_fast._text import no_column
from puffin_fast.errors import InvalidInputError, NotFoundError

if TYPE_CHECKING:
    from pyiceberg.schema import Schema

_PLAIN: dict[str, Callable[..., Transform[Any, Any]]] = {
    "identity": IdentityTransform,
    "year": YearTransform,
    "month": MonthTransform,
    "day": DayTransform,
    "hour": HourTransform,
    "void": VoidTransform,
}
_WITH_WIDTH: dict[str, Callable[..., Transform[Any, Any]]] = {
    "bucket": BucketTransform,
    "truncate": TruncateTransform,
}
_PLURAL = re.compile("(year|month|day|hour)s")

_TRANSFORM = re.compile(r"(\w+)\s*(?:\[\s*(\d+)\s*\]\s*\(|\(\s*(\d+)\s*,|\()\s*(.+?)\s*\)", re.DOTALL)
"""Groups: name, width (two spellings), column: ``bucket[16](id)``, ``bucket(16, id)``, ``day(time)``."""

_KNOWN = "expected a column, identity(c), year(c), month(c), day(c), hour(c), bucket(16, c), truncate(4, c) or void(c)"

MAX_WIDTH = 2**31 - 1


def checked_partition_spec(given: PartitionSpec | Sequence[str], schema: Schema) -> PartitionSpec:
    """Returns the partition spec of a new table, parsed and checked.

    Args:
        given: a PyIceberg spec, or a text for each field: a column, or a transform in the specification's
            spelling (``bucket[16](id)``) or Spark's (``bucket(16, id)``, ``days(time)``).

    Raises:
        NotFoundError: the schema does not have a column.
        InvalidInputError: a text is not a transform, a transform does not accept the type of its column, a
            width is below 1, two fields have one name, a field has the name of another column, or two fields
            are about the time of one column (as Java refuses them).
    """
    if not isinstance(given, PartitionSpec):
        texts = check_texts("partition_spec", given)
        given = PartitionSpec(*(_field(number, text, schema) for number, text in enumerate(texts)))
    names: set[str] = set()
    sources: dict[tuple[int, str], PartitionField] = {}
    for field in given.fields:
        where = f"partition_spec {field.transform}({schema.find_column_name(field.source_id)})"
        transform = field.transform
        width = getattr(transform, "num_buckets", getattr(transform, "width", 1))
        if isinstance(transform, UnknownTransform):
            raise InvalidInputError(f"{where}: unknown transform; {_KNOWN}")
        if not 1 <= width <= MAX_WIDTH:
            raise InvalidInputError(f"{where}: expected a width from 1 to {MAX_WIDTH}, found {width}")
        source = schema.find_column_name(field.source_id)
        same = isinstance(transform, IdentityTransform) and source == field.name
        if field.name in names or (field.name in schema.column_names and not same):
            other = "field" if field.name in names else "column of the table"
            raise InvalidInputError(f"{where}: another {other} is named {field.name!r}")
        names.add(field.name)
        same_kind = "time" if isinstance(transform, TimeTransform) else str(transform)
        first = sources.setdefault((field.source_id, same_kind), field)
        if first is not field:
            raise InvalidInputError(f"{where}: conflicts with {first.transform}({source}); give one of them")
    try:
        given.check_compatible(schema)
    except ValidationError as error:
        raise InvalidInputError(f"partition_spec: {error}") from error
    return given


def _field(number: int, text: str, schema: Schema) -> PartitionField:
    transform, column, kind = _parsed(text, schema)
    try:
        source = schema.find_field(column)
    except ValueError:
        raise NotFoundError(f"partition_spec {text!r}: {no_column(column, schema.column_names)}") from None
    return PartitionField(
        source_id=source.field_id,
        field_id=PARTITION_FIELD_ID_START + number,
        transform=transform,
        name=f"{column}_{kind}" if kind else column,
    )


def _parsed(text: str, schema: Schema) -> tuple[Transform[Any, Any], str, str]:
    """The transform, the column, and the suffix of the partition field's name."""
    found = _TRANSFORM.fullmatch(text.strip())
    if text in schema.column_names or (found is None and not re.search(r"[()\[\],]", text)):
        return IdentityTransform(), text, ""
    if found is not None:
        name = found[1].lower()
        kind = name[:-1] if _PLURAL.fullmatch(name) else name
        width = found[2] or found[3]
        if kind in _PLAIN and width is None:
            return _PLAIN[kind](), found[4], "" if kind == "identity" else kind
        if kind in _WITH_WIDTH and width is not None and len(width) <= len(str(MAX_WIDTH)):
            return _WITH_WIDTH[kind](int(width)), found[4], kind
    raise InvalidInputError(f"partition_spec {text!r}: {_KNOWN}")
