"""On executors: the rows that a caller gives, in the types of the table."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.schema import Schema

from puffin_fast.rows.match.given_rows import RowWriterSchema

if TYPE_CHECKING:
    from puffin_fast.spark.worker.tasks import Target


class Given:
    """Given rows as rows of the table.

    Args:
        table: the target.
        columns: the names of the table's columns that the rows have, in their order.
        only: the names of the columns to return; all by default.
        first: the index of the first of these columns among Spark's columns.
        whole: whether columns of the table that the rows do not have are returned as null.
    """

    def __init__(
        self,
        table: Target,
        columns: Sequence[str],
        only: Collection[str] | None = None,
        *,
        first: int = 0,
        whole: bool = False,
    ) -> None:
        schema, only = table.metadata.schema(), columns if only is None else only
        fields = [field for field in schema.fields if field.name in only]
        self._schema = schema if whole else Schema(*fields, schema_id=schema.schema_id)
        self._places = [first + columns.index(field.name) for field in fields]
        self._names = [field.name for field in fields]

    def rows(self, batches: Iterable[pa.RecordBatch]) -> pa.Table:
        """Returns the rows in the types of the table.

        Raises:
            InvalidInputError: a value does not fit its column.
        """
        named = [
            pa.RecordBatch.from_arrays([batch.columns[at] for at in self._places], self._names)
            for batch in batches
        ]
        return RowWriterSchema(self._schema, named[0].schema).table(pa.Table.from_batches(named))
