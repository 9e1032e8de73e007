"""Selects the data files that are worth a rewrite, and groups them to new files of the target size."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from puffin_fast._api.arguments import check_flags, check_integer, check_share
from puffin_fast._concurrency.groups import bins_of
from puffin_fast.errors import InvalidInputError
from puffin_fast.rows.rewrite.row_order import RowOrder
from puffin_fast.rows.tasks import DataFile, DeleteFile, Task, TaskOf, Vector

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.sorting import SortOrder

MIN_DELETED = 0.3
"""With at least this share of deleted rows, rewriting a data file once is cheaper than reading its deleted rows."""

MIN_INPUT_FILES = 5
"""Number of small data files from which on joining them is cheaper than opening each."""

FULL = 0.75
"""A data file is not small if it has this share of the target size."""


@dataclass(frozen=True)
class RewriteTerms:
    """Which data files are rewritten; the attributes as the arguments of `rewrite_data_files`.

    Raises:
        InvalidInputError: an argument.
    """

    row_filter: Any
    min_deleted: float = MIN_DELETED
    min_file_size: int | None = None
    min_input_files: int = MIN_INPUT_FILES
    target_file_size: int | None = None
    max_commits: int = 1
    case_sensitive: bool = True
    sort_by: SortOrder | Sequence[str] | None = None

    def __post_init__(self) -> None:
        check_flags(case_sensitive=self.case_sensitive)
        check_share("min_deleted", self.min_deleted)
        check_integer("min_file_size", self.min_file_size, least=0)
        check_integer("min_input_files", self.min_input_files, least=2, optional=False)
        check_integer("target_file_size", self.target_file_size, least=1)
        check_integer("max_commits", self.max_commits, least=1, optional=False)

    def check_job(self, job_id: str | None) -> None:
        """Checks that a job with an id has one commit.

        Raises:
            InvalidInputError: it may have several.
        """
        if self.max_commits > 1 and job_id is not None:
            raise InvalidInputError(
                f"max_commits {self.max_commits}: expected 1 with a job_id, which the first commit would mark as done"
            )

    def order(self, metadata: TableMetadata) -> RowOrder | None:
        """The order of the rows of the new files; None if they stay as they are."""
        return None if self.sort_by is None else RowOrder.of(self.sort_by, metadata)

    def limits(self, metadata: TableMetadata, target_file_size: int) -> GroupLimits:
        """The limits of a table; `target_file_size` is the size if the caller gave none."""
        return GroupLimits.of(
            self.target_file_size or target_file_size,
            min_deleted=self.min_deleted,
            min_file_size=self.min_file_size,
            min_input_files=self.min_input_files,
            order=self.order(metadata),
        )


class OldFile(DataFile, Protocol):
    """A data file that may be rewritten."""

    @property
    def sequence_number(self) -> int | None: ...
    @property
    def sort_order_id(self) -> int | None: ...


OldTask: TypeAlias = TaskOf[OldFile, Vector, DeleteFile]
Old = TypeVar("Old", bound=OldTask)


@dataclass(frozen=True)
class GroupLimits:
    """Decides which data files are rewritten, and which of them together.

    Attributes:
        min_deleted: a data file is rewritten if at least this share of its rows is deleted.
        min_file_size: data files of fewer bytes are small.
        min_input_files: number of such files that are joined at least.
        target_file_size: size of a new data file in bytes.
        order: the sort order of the rows of the new files, if they are sorted. Files without this order are rewritten,
            too.
    """

    min_deleted: float
    min_file_size: int
    min_input_files: int
    target_file_size: int
    order: RowOrder | None = None

    @classmethod
    def of(
        cls,
        target_file_size: int,
        *,
        min_deleted: float = MIN_DELETED,
        min_file_size: int | None = None,
        min_input_files: int = MIN_INPUT_FILES,
        order: RowOrder | None = None,
    ) -> GroupLimits:
        """Returns the limits with their defaults."""
        small = int(FULL * target_file_size) if min_file_size is None else min_file_size
        return cls(min_deleted, small, min_input_files, target_file_size, order)

    def groups(self, tasks: Iterable[Old]) -> list[list[Old]]:
        """Groups the data files to rewrite.

        The files of a group have one partition and spec, are ordered as they were committed, and have live rows for
        one file of the target size, or are a single larger file. If rows are sorted, a partition is one group.
        """
        partitions: dict[Any, list[Old]] = defaultdict(list)
        for task in sorted(tasks, key=_age):
            if self._is_needed(task) or task.data.file_size_in_bytes < self.min_file_size:
                partitions[_partition(task)].append(task)
        found = []
        for some in partitions.values():
            bins = [some] if self.order else bins_of(some, self.target_file_size, live_bytes)
            for files in bins:
                if len(files) < self.min_input_files:
                    files = [task for task in files if self._is_needed(task)]
                if files:
                    found.append(files)
        return found

    def _is_needed(self, task: OldTask) -> bool:
        if self.order and (self.order.order_id is None or task.data.sort_order_id != self.order.order_id):
            return True
        deleted = known_deleted(task)
        return deleted > 0 and deleted / max(task.data.record_count, 1) >= self.min_deleted


def known_deleted(task: Task) -> int:
    """The number of rows that are deleted by position, as far as the metadata states it.

    Equality deletes and position-delete files of several data files are not counted.
    """
    if task.vector is not None:
        return task.vector.record_count
    n_deleted: int = sum(entry.record_count for entry in task.position_deletes.alone)
    return min(task.data.record_count, n_deleted)


def live_bytes(task: Task) -> int:
    """The size of a data file in bytes without its deleted rows, as far as the metadata states it."""
    data = task.data
    return data.file_size_in_bytes * (data.record_count - known_deleted(task)) // max(data.record_count, 1)


def _age(task: OldTask) -> tuple[int, int]:
    return task.data.sequence_number or 0, task.data.first_row_id or 0


def _partition(task: OldTask) -> Any:
    """The partition of a data file as a key: NaN equals NaN, and 0.0 differs from -0.0."""
    values = task.data.partition
    return task.data.spec_id, tuple(repr(value) if isinstance(value, float) else value for value in values)
