"""The delete files that apply to a data file, as parts of lists that many data files share.

    data file 1: not older than 1 -> [d1 d2 d3 d4 d5]
    data file 2: not older than 3 ->       [d3 d4 d5]   the same list, from an index on

Copies would take quadratic memory: a table that is appended to and deleted from in turn has for each data file all
later delete files.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, overload

from puffin_fast._process.cached import cached_property

FILE_PATH_ID = 2147483546
"""Reserved field id of ``file_path`` in position-delete files. Its bounds limit the referenced data files."""


def sequence_number(entry: Any) -> int:
    """The data sequence number; that of version 1 is 0."""
    return entry.sequence_number or 0


def single_data_file(entry: Any) -> str | None:
    """The data file that a position-delete file is limited to by its entry; None if it may have several."""
    referenced: str | None = entry.referenced_data_file
    if referenced is not None:
        return referenced
    lower, upper = path_bounds(entry)
    return lower.decode(errors="surrogateescape") if lower is not None and lower == upper else None


def path_bounds(entry: Any) -> tuple[bytes | None, bytes | None]:
    """The bounds of ``file_path`` of a position-delete file."""
    return (entry.lower_bounds or {}).get(FILE_PATH_ID), (entry.upper_bounds or {}).get(FILE_PATH_ID)


class SharedDeletes:
    """Delete files ordered by data sequence number. Data files share it, each from an index on.

    Attributes:
        entries: the delete files; complete before the first index is asked for.
        of_one: whether they reference a single data file.
        first: the smallest index that was given to a data file; None before that.
        others: lists of the same partition, this one included: who reads one of them is likely to read the others.
    """

    def __init__(self, entries: Iterable[Any] = (), *, of_one: bool = False) -> None:
        self.entries: list[Any] = list(entries)
        self.of_one = of_one
        self.first: int | None = None
        self.others: Sequence[SharedDeletes] = ()

    @cached_property
    def _numbers(self) -> list[int]:
        self.entries.sort(key=sequence_number)
        return [*map(sequence_number, self.entries)]

    @cached_property
    def _places(self) -> dict[str, int]:
        return {entry.file_path: at for at, entry in enumerate(self.entries)}

    def __reduce__(self) -> Any:
        """Delete files that apply to no data file are not pickled; `others` are left out."""
        return _restored, (self.entries[self.first or 0 :], self.of_one)

    def needed(self) -> Iterator[Any]:
        """Yields the delete files of all `others` that apply to any data file; some of them several times."""
        for one in self.others:
            if one.first is not None:
                yield from one.entries[one.first :]

    def not_older(self, number: int) -> int:
        """The index of the first delete file that is not older than a data sequence number."""
        return bisect_left(self._numbers, number)

    def newer(self, number: int) -> int:
        """The index of the first delete file that is newer than a data sequence number."""
        return bisect_right(self._numbers, number)

    def index(self, entry: Any) -> int:
        """The index of a delete file, found by its path; -1 if it is not among them."""
        return self._places.get(entry.file_path, -1)


def _restored(entries: list[Any], of_one: bool) -> SharedDeletes:
    return SharedDeletes(entries, of_one=of_one)


Parts = tuple[tuple[SharedDeletes, int], ...]


class DeleteFiles(Sequence[Any]):
    """The delete files of one kind that apply to a data file.

    Attributes:
        parts: lists of delete files, and the index from which on they apply. None is empty.
    """

    __slots__ = ("parts",)

    def __init__(self, parts: Iterable[tuple[SharedDeletes, int]] = ()) -> None:
        self.parts: Parts = tuple((shared, start) for shared, start in parts if start < len(shared.entries))
        for shared, start in self.parts:
            shared.first = start if shared.first is None else min(shared.first, start)

    @classmethod
    def of(cls, entries: Iterable[Any]) -> DeleteFiles:
        """Returns delete files that no other data file shares."""
        kinds: tuple[list[Any], list[Any]] = [], []
        for entry in entries:
            kinds[single_data_file(entry) is not None].append(entry)
        return cls((SharedDeletes(some, of_one=bool(of_one)), 0) for of_one, some in enumerate(kinds))

    @property
    def alone(self) -> Iterator[Any]:
        """The delete files that reference this data file only."""
        for shared, start in self.parts:
            if shared.of_one:
                yield from shared.entries[start:]

    def __len__(self) -> int:
        return sum(len(shared.entries) - start for shared, start in self.parts)

    def __bool__(self) -> bool:
        return bool(self.parts)

    def __iter__(self) -> Iterator[Any]:
        for shared, start in self.parts:
            for at in range(start, len(shared.entries)):
                yield shared.entries[at]

    @overload
    def __getitem__(self, at: int) -> Any: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Any]: ...
    def __getitem__(self, at: Any) -> Any:
        return tuple(self)[at]

    def __contains__(self, entry: object) -> bool:
        return any(shared.index(entry) >= start for shared, start in self.parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and (self is other or tuple(self) == tuple(other))

    def __hash__(self) -> int:
        return len(self)

    def __reduce__(self) -> Any:
        """A list that data files share is pickled once with them."""
        return DeleteFiles, (tuple((shared, start - (shared.first or 0)) for shared, start in self.parts),)


NO_DELETES = DeleteFiles()


def distinct(groups: Iterable[Iterable[Any]]) -> list[Any]:
    """Returns the delete files of many data files, each once; in time linear in the delete files."""
    shared: dict[SharedDeletes, int] = {}
    found: dict[int, Any] = {}
    for group in groups:
        if isinstance(group, DeleteFiles):
            for part, start in group.parts:
                shared[part] = min(shared.get(part, start), start)
        else:
            found.update((id(entry), entry) for entry in group)
    for part, start in shared.items():
        found.update((id(entry), entry) for entry in part.entries[start:])
    return [*found.values()]
