"""Writes rows to new Parquet data files of a Delta table, split by partition and size, and makes their actions.

A file has the columns under their physical names. It has the partition columns only if a feature requires them. The
files of partitioned tables are in partition folders, those of tables with column mapping in the table's folder.
"""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from puffin_fast._concurrency.progress import count_rows
from puffin_fast._io import open_sink
from puffin_fast._io.run_folder import RunFolder
from puffin_fast._process.cached import cached_property
from puffin_fast._text import without_values
from puffin_fast.columns.arrow_rows import renamed
from puffin_fast.delta.dml.file_statistics import indexed_columns, statistics_of
from puffin_fast.delta.dml.partition_folders import partition_folder
from puffin_fast.delta.dml.stored_types import annotations_of, stored_fields
from puffin_fast.delta.log.protocol import (
    CHANGE_DATA_FEED,
    ICEBERG_COMPAT_V3,
    MAPPING_MAX_ID,
    MAPPING_MODE,
    integer_of,
    is_set,
    longest_text,
)
from puffin_fast.delta.log.row_ids import MATERIALIZED
from puffin_fast.delta.log.snapshot import Snapshot
from puffin_fast.delta.log.storage import encoded_path
from puffin_fast.delta.scans.plan import DeltaTable
from puffin_fast.errors import InvalidInputError, UnsupportedError
from puffin_fast.parquet.logical_types import annotated_end

TARGET_FILE_SIZE = 128 << 20
"""Size in bytes of the rows in memory at which another data file begins, and target size of a rewritten one."""
CHANGES_FOLDER = "_change_data"


def new_name() -> str:
    """Returns a name of a data file that no other has."""
    return f"part-00000-{uuid.uuid4()}-c000.zstd.parquet"


@dataclass(frozen=True)
class DataFile:
    """A file that was written.

    Attributes:
        path: below the table, percent-encoded as in the log.
        partition: the values of the partition columns by physical name, in the form of the log.
        size: in bytes.
        stats: the statistics, in the form of the log.
    """

    path: str
    partition: Mapping[str, str | None]
    size: int
    stats: str

    def _action(self) -> dict[str, Any]:
        return {"path": self.path, "partitionValues": dict(self.partition), "size": self.size}

    def add(self, *, data_change: bool = True, tags: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Returns the action that adds the file to the table."""
        own = {"modificationTime": int(time.time() * 1000), "dataChange": data_change, "stats": self.stats}
        return {"add": {**self._action(), **own, **({"tags": dict(tags)} if tags else {})}}

    def cdc(self) -> dict[str, Any]:
        """Returns the action that adds the file to the change data feed."""
        return {"cdc": {**self._action(), "dataChange": False}}


class NamesIn:
    """Makes the paths of new files in the folder of a run, below the table. It can be pickled."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder

    def __reduce__(self) -> tuple[Any, ...]:
        return NamesIn, (self._folder,)

    @cached_property
    def _name(self) -> Callable[[str], str]:
        return self._folder.names()

    def __call__(self) -> str:
        return self._name(".parquet").removeprefix(self._folder.location.removesuffix(self._folder.run))


@dataclass
class DataFileWriter:
    """Writes rows to data files with the schema of a version.

    Attributes:
        table: the version.
        created: gets the paths of all files that were begun, below the table.
        written: those of this object.
        target_bytes: size of the rows in memory at which another file begins; None: the caller divides the rows.
        name: returns the path of the next data file, below the table; by default it is a new one in the folder of its
            partition.
    """

    table: DeltaTable
    created: list[str] = field(default_factory=list)
    written: list[str] = field(default_factory=list)
    target_bytes: int | None = TARGET_FILE_SIZE
    name: Callable[[], str] | None = None

    @property
    def _snapshot(self) -> Snapshot:
        return self.table.snapshot

    @property
    def _is_mapped(self) -> bool:
        """Whether the table has column mapping."""
        return self._snapshot.configuration.get(MAPPING_MODE, "none") != "none"

    @cached_property
    def _indexed(self) -> frozenset[tuple[str, ...]]:
        """The columns with statistics."""
        base, schema = self._snapshot, self.table.schema
        fields = base.delta_schema["fields"]
        names = list(schema.names)[: len(fields)]
        return indexed_columns(fields, names, schema.partition_names, base.configuration, base.root)

    def write(
        self, rows: pa.Table, extra: Mapping[str, pa.Array] | None = None, *, data_change: bool = True
    ) -> list[dict[str, Any]]:
        """Writes rows; returns the `add` actions.

        Args:
            rows: all columns of the table by name, in the types that scans return.
            extra: additional columns of the files by physical name.
            data_change: False for rows that are already in the table.

        Raises:
            InvalidInputError: a value does not fit the type of its column, such as a text that is longer than Spark's
                ``varchar(n)``, or a required column has a null.
        """
        configuration = self._snapshot.configuration
        compatible = is_set(configuration, ICEBERG_COMPAT_V3)
        tags = {"ICEBERG_COMPAT_VERSION": "3"} if compatible else None
        if data_change:
            self._check_lengths(rows)
        return [file.add(data_change=data_change, tags=tags) for file in self._files(rows, extra or {}, "")]

    def write_changes(self, parts: Mapping[str, pa.Table]) -> list[dict[str, Any]]:
        """Writes files of the change data feed; returns the `cdc` actions.

        Args:
            parts: rows by the type of their change.
        """
        found = []
        for kind, rows in parts.items():
            kinds = pa.repeat(pa.scalar(kind), rows.num_rows)
            found += [file.cdc() for file in self._files(rows, {"_change_type": kinds}, f"{CHANGES_FOLDER}/")]
        return found

    def remove(self) -> None:
        """Removes the files that were written."""
        for path in self.written:
            self._snapshot.storage.remove(path)

    def _files(self, rows: pa.Table, extra: Mapping[str, pa.Array], folder: str) -> Iterator[DataFile]:
        if rows.num_rows == 0:
            return
        stored = self._stored(rows)
        for name, values in extra.items():
            stored = stored.append_column(name, values)
        for partition, part in self._partitions(rows, stored):
            target = self.target_bytes or part.nbytes
            step = max(1, part.num_rows * target // max(part.nbytes, 1))
            for start in range(0, part.num_rows, step):
                yield self._write(part.slice(start, step), partition, folder)

    def _check_lengths(self, rows: pa.Table) -> None:
        """Refuses texts that are longer than Spark's ``char(n)`` or ``varchar(n)``."""
        for one in self._snapshot.delta_schema["fields"]:
            if rows.num_rows and (most := longest_text(one)) is not None:
                found = pc.max(pc.utf8_length(rows[one["name"]].cast(pa.large_string()))).as_py()
                if found is not None and found > most:
                    raise InvalidInputError(
                        f"column {one['name']}: expected at most {most:,} characters, found {found:,}"
                    )

    def _stored(self, rows: pa.Table) -> pa.Table:
        """Returns the columns that data files have."""
        schema, base = self.table.schema, self._snapshot
        fields = base.delta_schema["fields"]
        for one in fields:
            _check_nulls(rows[one["name"]].combine_chunks(), one, one["name"])
        typed = pa.schema(stored_fields(fields, list(schema.names)[: len(fields)], physical=False))
        highest = integer_of(base.configuration, MAPPING_MAX_ID, 0, base.root) if self._is_mapped else 0
        target = stored_fields(fields, list(schema.names)[: len(fields)], physical=True, ids=highest)
        try:
            cast = rows.select(typed.names).cast(typed).combine_chunks()
        except pa.ArrowInvalid as error:
            raise InvalidInputError(f"{base.root}: {without_values(error).splitlines()[0]}") from None
        batches = [renamed(batch, pa.schema(target)) for batch in cast.to_batches()]
        found = pa.Table.from_batches(batches, pa.schema(target))
        features = base.protocol.writer_features
        if "materializePartitionColumns" in features or is_set(base.configuration, ICEBERG_COMPAT_V3):
            return found
        return found.drop_columns(list(schema.partition_names))

    def _partitions(
        self, rows: pa.Table, stored: pa.Table
    ) -> Iterator[tuple[dict[str, str | None], pa.Table]]:
        schema = self.table.schema
        if not schema.partition_fields:
            yield {}, stored
            return
        values, codes = [], np.zeros(rows.num_rows, np.int64)
        for one in schema.partition_fields:
            text = partition_text(rows[one.name].combine_chunks(), one.name)
            encoded = pc.dictionary_encode(text, null_encoding="encode")
            values.append(encoded)
            codes = codes * len(encoded.dictionary) + encoded.indices.to_numpy()
            codes = np.unique(codes, return_inverse=True)[1]
        order = np.argsort(codes, kind="stable")
        starts = np.flatnonzero(np.diff(codes[order], prepend=-1)).tolist()
        stored = stored.take(pa.array(order))
        for start, stop in itertools.pairwise([*starts, len(order)]):
            texts = [encoded[int(order[start])].as_py() for encoded in values]
            yield dict(zip(schema.partition_names, texts, strict=True)), stored.slice(start, stop - start)

    def _write(self, rows: pa.Table, partition: Mapping[str, str | None], folder: str) -> DataFile:
        storage = self._snapshot.storage
        if self.name is None:
            folder += "" if self._is_mapped else partition_folder(partition)
            path = folder + new_name()
        else:
            path = self.name()
        buffer = pa.BufferOutputStream()
        pq.write_table(rows, buffer, compression="zstd", write_page_checksum=True, write_page_index=True)
        data = buffer.getvalue()
        if annotations := annotations_of(rows.schema):
            data = pa.py_buffer(annotated_end(data.to_pybytes(), annotations))
        sink = open_sink(f"{storage.root}/{path}", filesystem=storage.filesystem)
        self.created.append(path)
        self.written.append(path)
        sink.write_file(data)
        count_rows(written=rows.num_rows)
        return DataFile(encoded_path(path), partition, data.size, statistics_of(rows, self._indexed))


def keeps_changes(base: Snapshot) -> bool:
    """Returns whether a table has a change data feed."""
    return is_set(base.configuration, CHANGE_DATA_FEED)


def row_tracking_columns(base: Snapshot, *values: Any) -> dict[str, Any] | None:
    """Returns the row-tracking columns of rewritten files, by physical name.

    Args:
        base: the version.
        values: the row ids; for rows that only move also the row commit versions.

    Returns:
        None if the table tracks rows but the ids cannot be kept: with column mapping by id, these columns have no field
        ids.
    """
    names = [base.configuration.get(name) for name in MATERIALIZED]
    if not is_set(base.configuration, "delta.enableRowTracking"):
        return {}
    if None in names or base.configuration.get(MAPPING_MODE) == "id":
        return None
    return {str(name): column for name, column in zip(names, values, strict=False)}


def _check_nulls(array: Any, field: Mapping[str, Any], name: str) -> None:
    """Refuses nulls in required columns and in required fields of structs."""
    if array.null_count and not field.get("nullable", True):
        raise InvalidInputError(f"column {name}: expected no null, found {array.null_count}")
    kind = field["type"]
    if isinstance(kind, Mapping) and kind["type"] == "struct":
        valid = array.filter(array.is_valid()) if array.null_count else array
        for at, inner in enumerate(kind["fields"]):
            _check_nulls(valid.field(at), inner, f"{name}.{inner['name']}")


def partition_text(values: Any, name: str) -> Any:
    """Returns partition values in the form of the log (protocol, "Partition Value Serialization").

    -0.0 becomes 0.0: other readers compare partition values in an order in which they differ, and would not find rows.

    Raises:
        InvalidInputError: there is an empty text, which every reader would return as null.
        UnsupportedError: the values are binary.
    """
    kind = values.type
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        raise UnsupportedError(f"partition column {name}: partitions by binary columns are not supported")
    if pa.types.is_timestamp(kind):
        zone = "Z" if kind.tz is not None else ""
        form = "%Y-%m-%dT%H:%M:%S" if zone else "%Y-%m-%d %H:%M:%S"
        plain = values.cast(pa.int64()).cast(pa.timestamp("us"))
        return pc.binary_join_element_wise(pc.strftime(plain, form), pa.scalar(zone), "")
    if pa.types.is_floating(kind):
        text = pc.add(values, pa.scalar(0.0, kind)).cast(pa.string())
        return pc.replace_substring(pc.replace_substring(text, "inf", "Infinity"), "nan", "NaN")
    text = values.cast(pa.string())
    n_empty = pc.sum(pc.equal(text, "")).as_py()
    if n_empty:
        raise InvalidInputError(
            f"partition column {name}: expected no empty text, which Delta stores as null, found {n_empty:,}"
        )
    return text
