"""Checks the schemas, partition specs and numbers of table metadata, which PyIceberg parses but does not compare.

No release of PyIceberg ends this: 0.12.0 and its main branch of August 2026 compare nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from puffin_fast.errors import CorruptDataError

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata


def check_definitions(metadata: TableMetadata, path: str) -> None:
    """Checks that the current schema, spec and order exist, and that their fields have names and ids of their own.

    Args:
        metadata: as PyIceberg parsed it.
        path: the path of the metadata file.

    Raises:
        CorruptDataError: one of these does not hold.
    """
    found = {
        "current-schema-id": (metadata.current_schema_id, (s.schema_id for s in metadata.schemas)),
        "default-spec-id": (metadata.default_spec_id, (s.spec_id for s in metadata.partition_specs)),
        "default-sort-order-id": (metadata.default_sort_order_id, (o.order_id for o in metadata.sort_orders)),
    }
    for name, (wanted, ids) in found.items():
        known = list(ids)
        _check_distinct(known, path, f"ids that {name} selects from")
        if wanted not in known and not (name == "default-sort-order-id" and wanted == 0):
            shown = ", ".join(map(str, known)) or "none"
            raise CorruptDataError(name, path=path, expected=f"one of {shown}", found=wanted)
    for name in ("last-column-id", "last-sequence-number", "last-updated-ms", "next-row-id"):
        number = getattr(metadata, name.replace("-", "_"), None)
        if number is not None and not 0 <= number < 1 << 63:
            raise CorruptDataError(name, path=path, expected="a number from 0 to 2^63 - 1", found=number)
    for spec in metadata.partition_specs:
        what = f"partition spec {spec.spec_id}"
        _check_distinct((field.field_id for field in spec.fields), path, f"{what}: field ids")
        _check_distinct((field.name for field in spec.fields), path, f"{what}: field names")
        if not all(field.name for field in spec.fields):
            raise CorruptDataError(f"{what}: name of a field", path=path, expected="a text", found="none")
    schema = metadata.schema()
    _check_distinct((field.field_id for field in schema.columns), path, "current schema: field ids")
    try:
        schema.column_names  # noqa: B018  # PyIceberg's index of names
    except ValueError as error:
        raise CorruptDataError("current schema", path=path, expected="distinct names", found=error) from error


def _check_distinct(values: Iterable[object], path: str, what: str) -> None:
    seen: set[object] = set()
    for value in values:
        if value in seen:
            raise CorruptDataError(what, path=path, expected="distinct values", found=f"{value!r} twice")
        seen.add(value)
