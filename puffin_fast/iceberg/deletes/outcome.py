"""The new deletes of one data file, before they are written and after."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from puffin_fast.bitmap import PositionBitmap
from puffin_fast.iceberg.plan.files import single_data_file

if TYPE_CHECKING:
    from puffin_fast.files import DeletionVectorLocation
    from puffin_fast.iceberg.manifest import ManifestEntry
    from puffin_fast.iceberg.plan.files import FileTask

__all__ = ["NewDeletes", "Outcome", "replaced"]


class _Loader(Protocol):
    def of(self, task: FileTask) -> PositionBitmap: ...


@dataclass(frozen=True)
class NewDeletes:
    """The deletes of one data file after a job, not written yet.

    Attributes:
        task: the data file and the deletes that apply to it.
        positions: all deleted positions, earlier ones included; None when all rows are deleted.
        n_new: number of rows that no position delete or deletion vector deleted before.
        before: the positions that were deleted before; None when there were none.
    """

    task: FileTask
    positions: PositionBitmap | None
    n_new: int
    before: PositionBitmap | None = None

    @classmethod
    def merge(cls, task: FileTask, positions: PositionBitmap, current: _Loader) -> NewDeletes:
        """Returns the union of new positions and of those that are deleted already.

        Args:
            task: the data file.
            positions: the new positions.
            current: loads the positions that are deleted already.
        """
        if task.vector is None and not task.position_deletes:
            return cls(task, positions, len(positions))
        before = current.of(task)
        after = before | positions
        return cls(task, after, len(after) - len(before), before)

    @property
    def drops(self) -> bool:
        """Whether all rows of the data file are deleted."""
        return self.positions is None or len(self.positions) == self.task.data.record_count


@dataclass(frozen=True)
class Outcome:
    """The deletes of one data file after they were written.

    Attributes:
        task: the data file and the deletes that applied to it before.
        n_new: number of newly deleted rows.
        vector: the location of its new deletion vector.
        by_files: True when position-delete files hold its deletes, in a table of format version 2.
    """

    task: FileTask
    n_new: int
    vector: DeletionVectorLocation | None = None
    by_files: bool = False

    @property
    def drops(self) -> bool:
        """Whether all rows of the data file are deleted."""
        return self.vector is None and not self.by_files


def replaced(task: FileTask) -> Iterator[ManifestEntry]:
    """Yields the delete files that apply to this data file alone: its new vector or its removal replaces them."""
    if task.vector is not None:
        yield task.vector
    for entry in task.position_deletes:
        if single_data_file(entry) == task.data.file_path:
            yield entry
