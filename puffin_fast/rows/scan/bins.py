"""Groups of data files that one worker reads, with the delete files that they share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from puffin_fast._concurrency.workers import OPEN_BYTES
from puffin_fast._process.gc_pause import paused_gc
from puffin_fast.rows.scan.splits import HasData, data_bytes
from puffin_fast.rows.shared_deletes import DeleteFiles, SharedDeletes

Item = TypeVar("Item")


class WithDeletes(HasData, Protocol):
    """A data file and its deletes: a `Task`, or `FileDeletes`."""

    @property
    def position_deletes(self) -> DeleteFiles: ...
    @property
    def equality_deletes(self) -> DeleteFiles: ...


def bins_of_tasks(
    items: Iterable[Item],
    tasks_of: Callable[[Item], Sequence[WithDeletes]],
    limit: int,
    cost: Callable[[Item], int] | None = None,
) -> list[list[Item]]:
    """Groups adjacent items so that each group reads data files of at most about `limit` bytes, or as many as its
    delete files. Groups are of similar size, so that two cores end at the same time.

    Each group reads all delete files that its data files share. If groups were smaller than these delete files, the
    cost would be proportional to the product of data files and delete files.

    Args:
        items: the items to group.
        tasks_of: returns the data files of an item, with their deletes.
        limit: bytes of a group.
        cost: returns the cost of reading these data files, in bytes; by default their sizes, and `OPEN_BYTES` for each.
    """
    every = [*items]
    with paused_gc():
        sized = []
        for item in every:
            tasks = tasks_of(item)
            size = sum(data_bytes(task) + OPEN_BYTES for task in tasks) if cost is None else cost(item)
            sized.append(with_deletes(tasks, size))
        return [every[some] for some in slices_of(sized, limit)]


Sized = tuple[int, Sequence[SharedDeletes]]
"""The bytes of an item and of the delete files of its own, and the lists of delete files that items share."""


def with_deletes(tasks: Sequence[WithDeletes], size: int) -> Sized:
    """Returns the size of an item with the delete files of its own, and the lists that items share."""
    parts = [part for task in tasks for part in (*task.position_deletes.parts, *task.equality_deletes.parts)]
    for one, start in parts:
        if one.of_one:
            size += sum(entry.file_size_in_bytes + OPEN_BYTES for entry in one.entries[start:])
    return size, [one for one, _ in parts if not one.of_one]


def slices_of(sized: Sequence[Sized], limit: int) -> list[slice]:
    """Returns the groups of `bins_of_tasks`, of items with these sizes."""
    starts: list[int] = []
    lists: set[int] = set()
    entries: set[int] = set()
    left = sum(size for size, _ in sized)
    n_bytes = n_shared = share = 0
    for at, (size, shared) in enumerate(sized):
        is_full = n_bytes + size > limit or n_bytes + size // 2 > share
        if not starts or (is_full and n_bytes + size > n_shared):
            starts.append(at)
            share = -(-left // max(1, -(-left // limit)))
            lists, entries, n_bytes, n_shared = set(), set(), 0, 0
        for one in shared:
            if id(one) not in lists:
                lists.add(id(one))
                for entry in one.entries[one.first or 0 :]:
                    if id(entry) not in entries:
                        entries.add(id(entry))
                        n_shared += entry.file_size_in_bytes + OPEN_BYTES
        n_bytes += size
        left -= size
    return [*map(slice, starts, [*starts[1:], len(sized)])]
