"""The data source ``puffin_changes``: the changes of a table as a stream.

Call ``puffin_fast.spark.register(spark)``, then ``spark.readStream.format("puffin_changes")`` with the options of
`stream_options`. An offset is the state up to which the stream has read, and where its query began:

    {"table": id, "since": BEGINNING}                    before the first batch
    {"table": id, "since": BEGINNING, "version": 41}     after a batch; "snapshot_id" for an Iceberg table

Spark's log stores only the end of a batch. If the first batch is repeated, its beginning is taken from its end, because
the table may have new commits by then. A beginning is a position, null for the empty table, or "table": then all rows
come first, as inserts.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from puffin_fast.errors import NotFoundError, UnsupportedError
from puffin_fast.spark.session.executor_calls import pack, unpack
from puffin_fast.spark.session.sessions import pyspark_version
from puffin_fast.spark.sources.commits import LOST, Commits, open_commits
from puffin_fast.spark.sources.stream_options import FORMAT, TABLE, StreamOptions
from puffin_fast.spark.table.changes import change_bins, reader_of
from puffin_fast.spark.table.conditions import check_meaning
from puffin_fast.spark.worker.changes import batches_of
from puffin_fast.spark.worker.column_types import spark_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from puffin_fast.rows.changes.change_scan import Changes

Offset: TypeAlias = "dict[str, Any]"

_LIMITS: Any = import_module("pyspark.sql.streaming.datasource") if pyspark_version() >= (4, 2) else None
"""PySpark's class for limits of batches. PySpark before 4.2 has none, and plans one batch for Trigger.AvailableNow."""

_Base: Any = object if _LIMITS is None else _LIMITS.SupportsTriggerAvailableNow


class ChangesDataSource(DataSource):
    """``spark.readStream.format("puffin_changes")``."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> Any:
        options = StreamOptions.of(self.options)
        commits = open_commits(options)
        found = commits.changes(None, commits.head, **{**options.scan, "net": True})
        check_meaning(options.scan.get("row_filter"), found.table_schema)
        return spark_schema(found.schema)

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802
        return ChangesReader(StreamOptions.of(self.options), schema)

    def reader(self, schema: Any) -> Any:
        raise UnsupportedError(
            f"format {FORMAT!r}: expected readStream, found read; see puffin_fast.spark.changes"
        )


class _ChangesPartition(InputPartition):
    """Changes of some commits, or parts of them.

    Attributes:
        changes: packed list of `CommitChanges`.
        reader: packed `ChangeReader`.
    """

    def __init__(self, changes: bytes, reader: bytes) -> None:
        self.changes, self.reader = changes, reader


class ChangesReader(DataSourceStreamReader, _Base):  # type: ignore[misc]
    """Plans batches on the driver, in one process for a query; `read` runs on executors.

    Args:
        options: the options of the stream.
        schema: the schema of the stream.
    """

    def __init__(self, options: StreamOptions, schema: StructType) -> None:
        self._options, self._schema = options, schema
        self._commits: Commits | None = None
        self._asked, self._is_frozen = 0.0, False
        self._initial: Offset | None = None
        self._last: Offset | None = None  # the end of the last batch that was planned

    def __reduce__(self) -> Any:
        return type(self), (self._options, self._schema)

    # Offsets -------------------------------------------------------------------------------------------------------

    def initialOffset(self) -> Offset:  # noqa: N802
        if self._initial is None:
            commits = self._newest()
            begins_with_rows = self._options.start == TABLE and not self._options.beginning
            since = TABLE if begins_with_rows else commits.beginning()
            self._initial = {"table": commits.table_id, "since": since}
        return self._initial

    def latestOffset(self, start: Offset | None = None, limit: Any = None) -> Offset:  # noqa: N802
        """The end of the next batch.

        Args:
            start: the end of the previous batch. PySpark before 4.2 does not pass it.
            limit: the limit of the batch. PySpark before 4.2 does not pass it.
        """
        commits = self._newest()
        start = start or self._last or self.initialOffset()
        self._check_table(start, commits)
        most = None if type(limit).__name__ == "ReadAllAvailable" else self._options.max_snapshots
        if self._begins_with_rows(start):
            end = commits.head
        else:
            end = commits.after(self._position(start, commits), most)
        if end is None or end == start.get(commits.key, start["since"]):
            return start
        return {"table": start["table"], "since": start["since"], commits.key: end}

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        if self._options.max_snapshots is None:
            return _LIMITS.ReadAllAvailable()
        return _LIMITS.ReadMaxFiles(self._options.max_snapshots)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._newest()
        self._is_frozen = True

    def _newest(self) -> Commits:
        """Returns the table; its metadata is read again if the last read is older than the poll interval."""
        now = time.monotonic()
        if self._commits is None:
            self._commits = open_commits(self._options)
        elif self._is_frozen or now - self._asked < self._options.poll_interval_s:
            return self._commits
        else:
            self._commits.refresh()
        self._asked = now
        return self._commits

    def _check_table(self, offset: Offset, commits: Commits) -> None:
        if offset["table"] != commits.table_id:
            raise NotFoundError(
                f"table {self._options.name}: expected the id {offset['table']} of the table that the stream has read, "
                f"found {commits.table_id}: it was replaced by another one. Begin a query with a new checkpoint"
            )

    def _begins_with_rows(self, offset: Offset) -> bool:
        return offset["since"] == TABLE and len(offset) == 2

    def _position(self, offset: Mapping[str, Any], commits: Commits) -> int | None:
        found: int | None = offset.get(commits.key, None if offset["since"] == TABLE else offset["since"])
        return found

    # Batches -------------------------------------------------------------------------------------------------------

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        self._last = end
        if start == end:
            return []
        commits = self._commits or self._newest()
        self._check_table(end, commits)
        if len(start) == 2:  # the beginning of the batch that is repeated, not that of a query that began now
            start = {"table": end["table"], "since": end["since"]}
        before, after = self._position(start, commits), self._position(end, commits)
        options = dict(self._options.scan)
        if self._begins_with_rows(start):
            options["net"] = True
        if before == after:
            return []
        try:
            found = commits.changes(before, after, **options)
            self._check_schema(found)
            bins = change_bins(found)
        except NotFoundError as error:  # of a batch that is repeated
            raise NotFoundError(
                f"table {self._options.name}: batch up to {commits.key}={after}: {error}. {LOST}"
            ) from error
        reader = pack(reader_of(found))
        return [_ChangesPartition(pack(items), reader) for items in bins]

    def _check_schema(self, found: Changes) -> None:
        now, then = (one.toNullable() for one in (spark_schema(found.schema), self._schema))
        if now != then:
            raise UnsupportedError(
                f"table {self._options.name}: the columns were changed after the query began, to {now.simpleString()}; "
                "start the query again, with the same checkpoint"
            )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _ChangesPartition)
        return batches_of(unpack(partition.changes), unpack(partition.reader), self._schema)
