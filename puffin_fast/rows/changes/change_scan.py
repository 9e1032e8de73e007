"""The changes of a table as a scan: what the tables of both formats share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.schema import Schema

from puffin_fast._api.arguments import check_flags
from puffin_fast._api.keywords import named_methods
from puffin_fast.errors import InvalidInputError
from puffin_fast.limits import KEY_BYTES
from puffin_fast.rows.changes.copies import LINEAGE
from puffin_fast.rows.changes.lines import ChangeReader, commit_fields
from puffin_fast.rows.changes.pairing import Pairing, Stage
from puffin_fast.rows.changes.shared_rows import SharedRows
from puffin_fast.rows.changes.states import CommitChanges, FileStates
from puffin_fast.rows.files.conversion import arrow_type
from puffin_fast.rows.files.metadata_columns import METADATA_COLUMNS, MetadataColumn
from puffin_fast.rows.filters.filters import Filter, RowFilter
from puffin_fast.rows.keys.key_columns import key_fields
from puffin_fast.rows.scan.file_reader import FileReader
from puffin_fast.rows.scan.row_scan import RowScan, first_rows

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.types import NestedField


_COLUMNS = {name: METADATA_COLUMNS[name] for name in ("_row_id", "_file", "_pos")}
_ROW_ID = METADATA_COLUMNS["_row_id"]


@named_methods("count", "to_arrow")
class Changes(RowScan):
    """The changes of a table between two states, created by `changes`. Metadata is read when they are requested.

    Attributes:
        schema: the Arrow schema of the result.
        table_schema: the table's columns.
        metadata: the metadata of the table, complete.
    """

    _kind = "Changes"

    def __init__(
        self,
        io: FileIO,
        metadata: TableMetadata,
        schema: Schema,
        *,
        net: bool,
        updates: bool,
        join_cols: str | Sequence[str] | None,
        row_filter: Filter,
        selected_fields: Sequence[str],
        case_sensitive: bool,
        threads: int | None,
        number: str,
        ordinal: bool,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        check_flags(net=net, updates=updates)
        super().__init__(
            schema,
            row_filter,
            selected_fields,
            limit=None,
            case_sensitive=case_sensitive,
            threads=threads,
            metadata_columns=_COLUMNS,
        )
        self.table_schema, self.metadata = schema, metadata
        self._io, self._options = io, dict(options or {})
        self._net, self._ordinal = net, ordinal
        self._updates = updates
        keys = []
        if join_cols is not None or schema.identifier_field_ids:
            keys = key_fields(schema, join_cols, case_sensitive=case_sensitive)
        self._keys = [schema.find_field(field.field_id) for _, field in keys]
        self._rows_schema = self.schema
        own = commit_fields(number, ordinal=ordinal)
        shown = [*self.schema][: len(self._fields)]
        for field in own:
            if field.name in {column.name for column in schema.fields}:
                raise InvalidInputError(
                    f"column {field.name}: expected another name, because changes have such a column"
                )
        self.schema = pa.schema([*shown, *own, *[*self.schema][len(shown) :]])

    def _source(self) -> str:
        ends = zip(("from", "to"), self._range(), strict=True)
        shown = [f"{name}={end}" for name, end in ends if end is not None]
        return ", ".join([*shown, f"net={self._net}"])

    def _range(self) -> tuple[int | None, int | None]:
        """The numbers of the states before and after; None for the empty table."""
        raise NotImplementedError

    @property
    def plan(self) -> Sequence[CommitChanges]:
        """The changed data files of each commit."""
        raise NotImplementedError

    def change_reader(self, metadata: TableMetadata | None = None) -> ChangeReader:
        """Returns the reader of the lines.

        Args:
            metadata: the metadata of the table, by default complete; its history may be removed, for other processes.
        """
        known = self.metadata if metadata is None else metadata
        shown, extra = len(self._fields), len(self._extra)
        keys = len(self._keys)
        row_id = 1 + shown + keys + extra
        values = [*range(1, 1 + shown)]
        with_id = [1 + shown + keys + at for at, column in enumerate(self._extra) if column.name == "_row_id"]
        stages = [
            Stage((row_id,), True, null_safe=False),
            Stage((*values, *with_id), False),
        ]
        if self._keys and self._updates:
            stages.append(Stage((*range(1 + shown, 1 + shown + keys),), True))
        shared = SharedRows()
        return ChangeReader(
            partial(FileStates, self._io, known, **self._options),
            self._reader_of(metadata=known),
            self._reader_of(self._keys, [_ROW_ID, shared.column], known),
            self._lineage_reader(known),
            self._feed_reader(),
            shared,
            Pairing(tuple(stages), (*values,), KEY_BYTES.of(self._io), self._updates),
            shown,
            keys,
            extra,
            self.schema,
            self._ordinal,
            not self._row_filter.always_true,
            self._threads,
        )

    def _lineage_reader(self, metadata: TableMetadata) -> Callable[[], FileReader]:
        """A factory of readers of the lineage of all rows; it can be pickled."""
        schema = pa.schema([(column.name, column.type) for column in LINEAGE])
        every = RowFilter.bind(AlwaysTrue(), self._read_schema)
        return partial(
            FileReader,
            self._io,
            metadata,
            self._read_schema,
            (),
            LINEAGE,
            every,
            schema,
            **self._options,
        )

    def _feed_reader(self) -> Callable[[], FileReader] | None:
        """A factory of readers of feed files, for formats with such files."""
        return None

    def _reader_of(
        self,
        keys: Sequence[NestedField] = (),
        more: Sequence[MetadataColumn] = (),
        metadata: TableMetadata | None = None,
        **options: Any,
    ) -> Callable[[], FileReader]:
        """A factory of readers of a layout; it can be pickled. Metadata and options are the table's by default."""
        fields = [*self._rows_schema][: len(self._fields)]
        fields += [pa.field(field.name, arrow_type(field.field_type)) for field in keys]
        extra = [*self._extra, *more]
        fields += [pa.field(column.name, column.type) for column in extra]
        return partial(
            FileReader,
            self._io,
            self.metadata if metadata is None else metadata,
            self._read_schema,
            [*self._fields, *keys],
            extra,
            self._row_filter,
            pa.schema(fields),
            **{**self._options, **options},
        )

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yields the lines in batches, those of each commit together; no batch is empty.

        Raises:
            CorruptDataError: a file does not agree with the metadata.
            NotFoundError: a file does not exist.
            UnsupportedError: the format of a file is not supported.
        """
        reader = self.change_reader()
        yield from first_rows(reader.lines(self.plan), self._limit)

    def count(self) -> int:
        """Returns the number of lines.

        Rows are not read where a commit only inserts or only deletes, unless there is a filter or equality deletes.

        Raises:
            CorruptDataError, NotFoundError, UnsupportedError: as `to_batches`.
        """
        reader = self.change_reader()
        n_lines = reader.count(self.plan)
        return n_lines if self._limit is None else min(n_lines, self._limit)

    def to_arrow(self) -> pa.Table:
        """Returns all lines."""
        return pa.Table.from_batches(self.to_batches(), self.schema)
