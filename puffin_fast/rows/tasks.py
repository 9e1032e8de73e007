"""A task: a data file with the deletes that apply to it, whatever the format of its table.

Attributes have the names of Iceberg's manifests. Each format has classes of its own with these attributes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import pyarrow as pa

from puffin_fast.bitmap import PositionBitmap
from puffin_fast.columns.objects import Objects, Same
from puffin_fast.rows.shared_deletes import NO_DELETES, DeleteFiles


class StoredFile(Protocol):
    """A file of rows."""

    @property
    def file_path(self) -> str: ...
    @property
    def file_format(self) -> str: ...
    @property
    def file_size_in_bytes(self) -> int: ...
    @property
    def record_count(self) -> int: ...
    @property
    def key_metadata(self) -> bytes | None: ...
    @property
    def lower_bounds(self) -> dict[int, bytes] | None: ...
    @property
    def upper_bounds(self) -> dict[int, bytes] | None: ...


class DataFile(StoredFile, Protocol):
    """A data file; `partition` has the values of the partition spec `spec_id`, without logical types."""

    @property
    def spec_id(self) -> int: ...
    @property
    def partition(self) -> tuple[Any, ...]: ...
    @property
    def first_row_id(self) -> int | None: ...
    @property
    def file_sequence_number(self) -> int | None: ...
    @property
    def split_offsets(self) -> list[int] | None: ...


class DeleteFile(StoredFile, Protocol):
    """A file of position deletes or of equality deletes."""

    @property
    def equality_ids(self) -> list[int] | None: ...
    @property
    def referenced_data_file(self) -> str | None: ...


class Vector(Protocol):
    """A deletion vector: a range of a file, and its cardinality."""

    @property
    def file_path(self) -> str: ...
    @property
    def content_offset(self) -> int | None: ...
    @property
    def content_size_in_bytes(self) -> int | None: ...
    @property
    def record_count(self) -> int: ...


File = TypeVar("File", bound=DataFile, covariant=True)
Blob = TypeVar("Blob", bound=Vector, covariant=True)
Other = TypeVar("Other", bound=DeleteFile, covariant=True)


@dataclass(slots=True)
class TaskOf(Generic[File, Blob, Other]):
    """A data file and the deletes that apply to it.

    Attributes:
        data: the data file.
        vector: its deletion vector, if it has one.
        position_deletes: the position-delete files; none if there is a vector, which supersedes them.
        equality_deletes: the equality-delete files.
        chosen: the positions of the only rows that are read; the task then has no deletes. None: all live rows.
        candidates: the positions of the rows that may match the plan's filter or keys, deleted rows included.
            None: any row may match.
        candidates_match: whether each of the candidates matches, unless it is deleted.
        candidate_keys: the key of each candidate, in their order, if an index has it and their row ids follow from
            the manifest: nothing else of them is then needed to replace them. The keys have one column.
        candidate_pages: where the pages of some column chunks are, if an index says it; see `Pages.known`.
    """

    data: File
    vector: Blob | None = None
    position_deletes: DeleteFiles = NO_DELETES
    equality_deletes: DeleteFiles = NO_DELETES
    chosen: PositionBitmap | None = None
    candidates: PositionBitmap | None = None
    candidates_match: bool = False
    candidate_keys: pa.Array | None = None
    candidate_pages: Sequence[Sequence[int]] = ()


Task: TypeAlias = TaskOf[DataFile, Vector, DeleteFile]
AnyTask = TypeVar("AnyTask", bound=Task, covariant=True)

METRICS = (
    "column_sizes",
    "value_counts",
    "null_value_counts",
    "nan_value_counts",
    "lower_bounds",
    "upper_bounds",
)
"""The attributes of a data file's metrics: maps by field id."""


class PlannedTasks(Sequence[AnyTask], Generic[AnyTask]):
    """The tasks of a plan, which is columns; they are made when they are requested."""

    @abstractmethod
    def columns(self) -> Objects[AnyTask]:
        """Returns the tasks without metrics, as columns."""

    @property
    @abstractmethod
    def parts(self) -> Sequence[Any]:
        """The data files as `BoundColumns` of `rows.filters`, in order; none if bounds are not columns."""

    @abstractmethod
    def total(self, name: str) -> int:
        """The sum of an attribute of the data files: ``record_count`` or ``file_size_in_bytes``."""


def columns_of(tasks: Sequence[AnyTask]) -> Objects[AnyTask]:
    """Returns tasks without metrics, as columns."""
    if isinstance(tasks, Objects):
        return tasks
    if isinstance(tasks, PlannedTasks):
        return tasks.columns()
    found: Any = Objects.of(tasks) if tasks else Objects(TaskOf, (), 0)
    files = {name: _files([getattr(task, name) for task in tasks]) for name in ("data", "vector")}
    every: Objects[AnyTask] = found.replaced(**files)
    return every


def _files(files: Sequence[Any]) -> Any:
    found = Objects.of(files)
    return found if isinstance(found, Same) else found.replaced(**{name: Same(None) for name in METRICS})


def with_metrics(tasks: Objects[AnyTask], some: Mapping[int, Task]) -> Objects[AnyTask]:
    """Returns tasks as columns with the metrics of some of them, by index."""
    columns = {
        name: [getattr(some[at].data, name, None) if at in some else None for at in range(len(tasks))]
        for name in METRICS
    }
    return tasks.replaced(data=tasks.column("data").replaced(**columns))


def paths_of(tasks: Objects[Any]) -> list[str]:
    """The paths of data files."""
    return [*tasks.column("data").values("file_path")] if tasks else []


def distinct_files(tasks: Objects[AnyTask]) -> Objects[AnyTask]:
    """Returns the last task of each data file."""
    rows = _by_path(tasks)
    return tasks if len(rows) == len(tasks) else tasks.take([*rows.values()])


def _by_path(tasks: Objects[Any]) -> dict[str, int]:
    return dict(zip(paths_of(tasks), count(), strict=False))


def total(tasks: Iterable[AnyTask], name: str) -> int:
    """The sum of an attribute of data files: ``record_count`` or ``file_size_in_bytes``."""
    if isinstance(tasks, PlannedTasks):
        return tasks.total(name)
    if isinstance(tasks, Objects):
        return sum(tasks.column("data").values(name)) if tasks else 0
    return sum(getattr(task.data, name) for task in tasks)


def named(tasks: Sequence[AnyTask], paths: Iterable[str]) -> list[AnyTask]:
    """Returns the tasks of some data files."""
    if isinstance(tasks, Objects):
        rows = _by_path(tasks)
        return [*tasks.take([rows[path] for path in paths])]
    by_path = {task.data.file_path: task for task in tasks}
    return [by_path[path] for path in paths]
