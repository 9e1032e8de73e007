"""The planned data files of a version as columns, and as tasks of the data-file reader.

The tasks are objects, which take longer to make than everything else that planning does. They are made in groups when
they are requested. What only counts or lists files uses the columns.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.conversions import to_bytes
from pyiceberg.types import NestedField

from puffin_fast._concurrency.threads import thread_pool
from puffin_fast._process.cached import cached_property
from puffin_fast._process.gc_pause import paused_gc
from puffin_fast.columns.objects import Objects, Same, column
from puffin_fast.delta.log.paths import are_spelled
from puffin_fast.delta.log.snapshot import Snapshot
from puffin_fast.delta.log.storage import TableStorage
from puffin_fast.delta.scans.statistics import UNKNOWN, Statistics
from puffin_fast.delta.scans.vector_columns import VectorColumns
from puffin_fast.errors import CorruptDataError
from puffin_fast.rows.files.parquet import open_parquet
from puffin_fast.rows.filters.bounds import literal_values
from puffin_fast.rows.scan.explain import TABLE, ScanStep
from puffin_fast.rows.scan.scan import FILES
from puffin_fast.rows.shared_deletes import NO_DELETES
from puffin_fast.rows.tasks import DeleteFile, PlannedTasks, TaskOf

_GROUP = 10_240
"""Number of tasks that are made at a time; large enough for `paused_gc` to save a collection."""
_READERS = 8
"""Number of footers that are read at a time, if the log does not have the row counts of the files."""


@dataclass(slots=True)
class DeltaFile:
    """A data file, with the attributes of `puffin_fast.rows.tasks.DataFile`.

    Attributes:
        first_row_id: ``baseRowId``.
        file_sequence_number: ``defaultRowCommitVersion``.
    """

    file_format: ClassVar = "PARQUET"
    spec_id: ClassVar = 0
    key_metadata: ClassVar = None
    split_offsets: ClassVar = None
    sort_order_id: ClassVar = None

    file_path: str
    file_size_in_bytes: int
    record_count: int
    partition: tuple[Any, ...]
    first_row_id: int | None
    file_sequence_number: int | None
    lower_bounds: dict[int, bytes] | None = None
    upper_bounds: dict[int, bytes] | None = None
    value_counts: dict[int, int] | None = None
    null_value_counts: dict[int, int] | None = None
    nan_value_counts: dict[int, int] | None = None

    @property
    def sequence_number(self) -> int | None:
        return self.file_sequence_number


@dataclass(slots=True)
class DeltaVector:
    """A deletion vector: a range of a `.bin` file, or of the log itself."""

    file_path: str
    content_offset: int | None
    content_size_in_bytes: int | None
    record_count: int


@dataclass(slots=True)
class DeltaTask(TaskOf[DeltaFile, DeltaVector, DeleteFile]):
    """A data file with its vector.

    Attributes:
        row: its index in the `files` of the snapshot.
    """

    row: int = -1


class DeltaTasks(PlannedTasks[DeltaTask]):
    """Planned data files. A task is made once, with its neighbors, when one of them is requested.

    Args:
        snapshot: the version.
        rows: the data files, as ascending indexes in the `files` of the snapshot.
        statistics: the statistics of all files.
        partitions: the values of all files by field id.
        fields: the columns whose bounds the tasks have.

    Raises:
        CorruptDataError, UnsupportedError: the descriptor of a vector is invalid.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        rows: npt.NDArray[np.int64],
        statistics: Statistics,
        partitions: Mapping[int, pa.Array],
        fields: Sequence[NestedField],
    ) -> None:
        self._snapshot, self._rows, self._fields = snapshot, rows, fields
        self._statistics, self._partitions = statistics, partitions
        columns = ["path", "size", "deletionVector", "baseRowId", "defaultRowCommitVersion"]
        files = snapshot.files.select(columns)
        self._files = files if len(rows) == files.num_rows else files.take(pa.array(rows))
        self.n_rows = statistics.n_rows[rows]
        """int64, the number of rows of each data file, deleted ones included; `UNKNOWN` before `count_rows`."""
        descriptors, paths = self._files["deletionVector"].combine_chunks(), self._files["path"]

        def location(at: int) -> str:  # no method: a reference to this object would be a cycle
            return snapshot.storage.location(paths[at].as_py())

        self.vectors = VectorColumns.of(descriptors, snapshot.storage, location)
        """The deletion vectors of the data files."""
        self._made: dict[int, list[DeltaTask]] = {}
        self._lock = threading.Lock()

    @property
    def whole(self) -> ScanStep:
        """All data files of the version; the number of rows is None if the log does not have it."""
        files, n_rows = self._snapshot.files, self._statistics.n_rows
        is_known = len(n_rows) == files.num_rows and not (n_rows == UNKNOWN).any()
        known = int(n_rows.sum()) if is_known else None
        return ScanStep(TABLE, files.num_rows, None, known, pc.sum(files["size"]).as_py() or 0)

    @cached_property
    def locations(self) -> pa.Array:
        """The locations of the data files, as large strings."""
        storage = self._snapshot.storage
        paths = self._files["path"].cast(pa.large_string()).combine_chunks()
        root, slash = (pa.scalar(text, paths.type) for text in (storage.root, "/"))
        found, spelled = pc.binary_join_element_wise(root, paths, slash), are_spelled(paths)
        if pc.any(spelled).as_py():
            others = [storage.location(path) for path in paths.filter(spelled).to_pylist()]
            found = pc.replace_with_mask(found, spelled, pa.array(others, found.type))
        return found

    def to_arrow(self) -> pa.Table:
        """Returns a row for each data file, with the columns of `FILES`; those of the vector are null without one.

        Raises:
            CorruptDataError: a vector has no offset, or is stored in the log, and is damaged.
            NotFoundError: the file of a vector without offset does not exist.
        """
        vectors = self.vectors.to_arrow()
        return pa.table(
            {
                "file_path": self.locations,
                "size": self._files["size"],
                "n_rows": self.n_rows,
                "vector_path": vectors["path"],
                "offset": vectors["offset"],
                "length": vectors["length"],
                "cardinality": vectors["cardinality"],
            }
        ).cast(FILES)

    def take(self, chosen: Sequence[int]) -> DeltaTasks:
        """Returns the plan of some of the data files.

        Args:
            chosen: their indexes here, ascending.
        """
        found = DeltaTasks(
            self._snapshot, self._rows[list(chosen)], self._statistics, self._partitions, self._fields
        )
        if self._made:
            for number, start in enumerate(range(0, len(chosen), _GROUP)):
                found._made[number] = [self[at] for at in chosen[start : start + _GROUP]]
        return found

    def count_rows(self) -> None:
        """Reads the footers of the data files whose number of rows is not in the log.

        Raises:
            NotFoundError: a data file does not exist.
            CorruptDataError: a deletion vector has more rows than its data file.
        """
        unknown = np.flatnonzero(self.n_rows == UNKNOWN)
        if not len(unknown):
            self._check_counts()
            return

        paths = self.locations.take(pa.array(unknown)).to_pylist()
        self.n_rows[unknown] = footer_counts(self._snapshot.storage, paths)
        self._check_counts()
        for number, tasks in self._made.items():
            for task, n_rows in zip(tasks, self.n_rows[number * _GROUP :].tolist(), strict=False):
                task.data.record_count = n_rows

    def _check_counts(self) -> None:
        """Refuses a vector of more rows than its data file has."""
        for at in np.flatnonzero(self.vectors.cardinality > self.n_rows)[:1].tolist():
            raise CorruptDataError(
                "cardinality of a deletion vector",
                path=self.locations[at].as_py(),
                expected=f"at most {self.n_rows[at]} (rows)",
                found=int(self.vectors.cardinality[at]),
            )

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[DeltaTask]:
        for number in range(-(-len(self) // _GROUP)):
            yield from self._group(number)

    @overload
    def __getitem__(self, at: int) -> DeltaTask: ...
    @overload
    def __getitem__(self, at: slice) -> list[DeltaTask]: ...
    def __getitem__(self, at: int | slice) -> DeltaTask | list[DeltaTask]:
        if isinstance(at, slice):
            return [self[one] for one in range(*at.indices(len(self)))]
        at = range(len(self))[at]
        number, place = divmod(at, _GROUP)
        return self._group(number)[place]

    def _group(self, number: int) -> list[DeltaTask]:
        with self._lock:
            if number not in self._made:
                with paused_gc():
                    self._made[number] = self._make(number * _GROUP, min((number + 1) * _GROUP, len(self)))
            return self._made[number]

    def _make(self, start: int, stop: int) -> list[DeltaTask]:
        tasks = [*self._columns(start, stop)]
        if self._fields:
            chosen, n_rows = pa.array(self._rows[start:stop]), self.n_rows[start:stop].tolist()
            bounds = _bounds(self._statistics, self._partitions, self._fields, chosen, n_rows)
            for task, bound in zip(tasks, bounds, strict=True):
                data = task.data
                data.lower_bounds, data.upper_bounds, data.value_counts, data.null_value_counts = bound
        return tasks

    @property
    def parts(self) -> tuple[()]:
        return ()

    def total(self, name: str) -> int:
        if name == "record_count":
            return int(self.n_rows.sum())
        return pc.sum(self._files["size"]).as_py() or 0

    def columns(self) -> Objects[DeltaTask]:
        return self._columns(0, len(self))

    def _columns(self, start: int, stop: int) -> Objects[DeltaTask]:
        rows, n = self._rows[start:stop], stop - start
        chosen, files = pa.array(rows), self._files.slice(start, n)
        partitions = [literal_values(array.take(chosen)) for array in self._partitions.values()]
        data = (
            self.locations.slice(start, n).to_pylist(),
            pc.fill_null(files["size"], 0).to_pylist(),
            self.n_rows[start:stop].tolist(),
            _tuples(partitions, n),
            files["baseRowId"].to_pylist(),
            files["defaultRowCommitVersion"].to_pylist(),
        )
        exists = self.vectors.exists[start:stop]
        vector: Any = Same(None)
        if exists.any():
            columns = [column(values) for values in self.vectors.lists(slice(start, stop))]
            vector = Objects(DeltaVector, columns, n, None if exists.all() else exists.tolist())
        shared = (
            Same(NO_DELETES),
            Same(NO_DELETES),
            Same(None),
            Same(None),
            Same(False),
            Same(None),
            Same(()),
        )
        return Objects(
            DeltaTask, [Objects(DeltaFile, [*map(column, data)], n), vector, *shared, rows.tolist()], n
        )


def _tuples(columns: Sequence[list[Any]], n: int) -> list[tuple[Any, ...]]:
    return [*zip(*columns, strict=True)] if columns else [()] * n


def footer_counts(storage: TableStorage, paths: Sequence[str]) -> list[int]:
    """Reads the number of rows of data files from their footers.

    Raises:
        NotFoundError: a data file does not exist.
    """

    def count(path: str) -> int:
        return int(open_parquet(storage, path).metadata.num_rows)

    with thread_pool(min(_READERS, len(paths)), "puffin_fast-plan") as pool:
        return list(pool.map(count, paths))


def _bounds(
    statistics: Statistics,
    partitions: Mapping[int, pa.Array],
    fields: Sequence[NestedField],
    chosen: pa.Array,
    n_rows: Sequence[int],
) -> list[tuple[dict[int, bytes], dict[int, bytes], dict[int, int], dict[int, int]]]:
    """Returns lower and upper bounds, value and null counts of some files, in the form of manifest entries."""
    found: list[Any] = [({}, {}, {}, {}) for _ in n_rows]
    for field in fields:
        key, kind = field.field_id, field.field_type
        if key in partitions:
            values = literal_values(partitions[key].take(chosen))
            for at, value in enumerate(values):
                lower, upper, counts, nulls = found[at]
                if value is not None:
                    lower[key] = upper[key] = to_bytes(kind, value)  # type: ignore[arg-type]
                if n_rows[at] != UNKNOWN:
                    counts[key], nulls[key] = n_rows[at], n_rows[at] if value is None else 0
        elif key in statistics.lower:
            for side, arrays in ((0, statistics.lower), (1, statistics.upper)):
                for at, value in enumerate(literal_values(arrays[key].take(chosen))):
                    if value is not None:
                        found[at][side][key] = to_bytes(kind, value)  # type: ignore[arg-type]
            for at, value in enumerate(statistics.nulls[key].take(chosen).to_pylist()):
                if value is not None and n_rows[at] != UNKNOWN:
                    found[at][2][key], found[at][3][key] = n_rows[at], value
    return found
