"""The schema and the first actions of a new Delta table."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyiceberg.types import DecimalType, IcebergType, ListType, MapType, NestedField, StructType

from puffin_fast import __version__
from puffin_fast.delta.log.action_types import as_json
from puffin_fast.delta.log.protocol import (
    FEATURES,
    MAPPING_ID,
    PHYSICAL_NAME,
    READER_FEATURES,
    Protocol,
    types_inside,
)
from puffin_fast.delta.scans.schema import PRIMITIVES
from puffin_fast.errors import UnsupportedError

NOT_IN_NAMES = frozenset(" ,;{}()\n\t=")
"""Characters that names of columns have only with column mapping."""

_NAMES = {
    type(kind): name
    for name, kind in reversed(
        PRIMITIVES.items()
    )  # reversed: of several names of a type, the first one stays
    if name != "void"
}
"""By the class of a type: its name in the log, for types that new tables have."""

_TYPE_FEATURES = {"timestamp_ntz": "timestampNtz", "variant": "variantType"}
"""The features that types require."""


def first_actions(
    columns: Sequence[Mapping[str, Any]],
    partition: Sequence[str],
    configuration: Mapping[str, str],
    features: frozenset[str],
    info: Mapping[str, Any],
) -> Iterator[dict[str, Any]]:
    """Yields the actions with which the log of a table begins: `commitInfo`, `protocol` and `metaData`.

    Args:
        columns: the columns of `NewSchema.fields`.
        partition: the names of the partition columns.
        configuration: the table properties.
        features: features of writers; those that readers must know are listed for them, too.
        info: entries of `commitInfo`.
    """
    now = int(time.time() * 1000)
    types = {name for column in columns for name in types_inside(column["type"]) if isinstance(name, str)}
    features |= {_TYPE_FEATURES[name] for name in types & _TYPE_FEATURES.keys()}
    yield {
        "commitInfo": {
            **({"inCommitTimestamp": now} if "inCommitTimestamp" in features else {}),
            "timestamp": now,
            "isolationLevel": "Serializable",
            "isBlindAppend": True,
            "operationMetrics": {},
            **info,
            "engineInfo": f"puffin_fast/{__version__}",
        }
    }
    yield {"protocol": Protocol(*FEATURES, features & READER_FEATURES, features).action()}
    yield {
        "metaData": {
            "id": str(uuid.uuid4()),
            "format": {"provider": "parquet", "options": {}},
            "schemaString": as_json({"type": "struct", "fields": list(columns)}),
            "partitionColumns": list(partition),
            "configuration": dict(configuration),
            "createdTime": now,
        }
    }


@dataclass(frozen=True)
class NewSchema:
    """Converts columns of Iceberg to those of a new Delta table.

    Attributes:
        table: its name in messages.
        physical: the physical name of each field by its id, for column mapping; None: there is no column mapping.
    """

    table: str
    physical: Mapping[int, str] | None

    def fields(self, fields: Sequence[NestedField]) -> list[dict[str, Any]]:
        """Converts the columns of a table or the fields of a struct."""
        names = [field.name for field in fields]
        if self.physical is not None:
            physical = [self.physical[field.field_id] for field in fields]
            names = physical if len(set(physical)) == len(names) else names
        return [
            {
                "name": field.name,
                "type": self._type(field.field_type, field.name),
                "nullable": not field.required,
                "metadata": {
                    **({} if self.physical is None else {MAPPING_ID: field.field_id, PHYSICAL_NAME: name}),
                    **({"comment": field.doc} if field.doc else {}),
                },
            }
            for field, name in zip(fields, names, strict=True)
        ]

    def _type(self, kind: IcebergType, column: str) -> Any:
        if isinstance(kind, DecimalType):
            return f"decimal({kind.precision},{kind.scale})"
        if isinstance(kind, StructType):
            return {"type": "struct", "fields": self.fields(kind.fields)}
        if isinstance(kind, ListType):
            element = self._type(kind.element_type, f"{column}.element")
            return {"type": "array", "elementType": element, "containsNull": not kind.element_required}
        if isinstance(kind, MapType):
            return {
                "type": "map",
                "keyType": self._type(kind.key_type, f"{column}.key"),
                "valueType": self._type(kind.value_type, f"{column}.value"),
                "valueContainsNull": not kind.value_required,
            }
        found = _NAMES.get(type(kind))
        if found is None:
            raise UnsupportedError(
                f"{self.table}: column {column} is of type {kind}, which is not converted to one of Delta"
            )
        return found
