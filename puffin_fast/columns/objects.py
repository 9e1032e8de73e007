"""Objects of one class as columns: they are made one by one when they are read, and pickled as columns.

A column of `Objects` is a list of values, one value that all have (`Same`), or `Objects` again:

    task             data.file_path  data.spec_id  data.partition    vector  vector.content_offset
    Task(File, V)    "a.parquet"     0 (Same)      (1,)               True    4
    Task(File)       "b.parquet"                   (2,)               False   None
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from functools import partial
from itertools import chain, count, repeat
from operator import attrgetter, is_
from typing import Any, Generic, TypeVar, overload

Item = TypeVar("Item", covariant=True)


class Same:
    """A column that has one value."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __reduce__(self) -> Any:
        return Same, (self.value,)


def column(values: list[Any]) -> list[Any] | Same:
    """A column of some values. Equal integers and texts become one object, which is stored and pickled once."""
    if not values:
        return values
    first = values[0]
    if all(map(partial(is_, first), values)):
        return Same(first)
    if type(first) in (int, str) and {*map(type, values)} == {type(first)}:  # True and 1.0 equal 1
        if values[-1] == first and values.count(first) == len(values):
            return Same(first)
        if type(first) is str:
            known: dict[Any, Any] = {}
            return [*map(known.setdefault, values, values)]
    return values


class Objects(Sequence[Item], Generic[Item]):
    """Objects that are made when they are read, a new one each time.

    Args:
        make: their class, which takes the values of its attributes in order (those of `__match_args__`).
        columns: the first of these values.
        n: number of objects.
        exists: which of them exist; None is in the place of others. By default all.
    """

    __slots__ = ("_columns", "_exists", "_make", "_n")

    def __init__(
        self,
        make: Callable[..., Item],
        columns: Sequence[Any],
        n: int,
        exists: Sequence[bool] | None = None,
    ) -> None:
        self._make, self._columns, self._n, self._exists = make, columns, n, exists

    @classmethod
    def of(cls, objects: Sequence[Any]) -> Any:
        """Returns objects of one class, some of which may be None, as columns."""
        some = [one for one in objects if one is not None]
        if not some:
            return Same(None)
        make: Any = type(some[0])
        found = cls(make, [column([*map(attrgetter(name), some)]) for name in make.__match_args__], len(some))
        if len(some) == len(objects):
            return found
        places = count()
        return found.spread([-1 if one is None else next(places) for one in objects])

    @classmethod
    def joined(cls, parts: Sequence[Objects[Item]]) -> Objects[Item]:
        """Returns objects of one class one after another; all of them exist, and no column has `Objects`."""
        if len(parts) == 1:
            return parts[0]
        make, n = parts[0]._make, sum(map(len, parts))
        return cls(
            make, [_joined(same, parts) for same in zip(*(part._columns for part in parts), strict=True)], n
        )

    def column(self, name: str) -> Any:
        """The column of an attribute, or of a class variable; it has values in the place of missing objects, too."""
        make: Any = self._make
        if name not in make.__match_args__:
            return Same(getattr(make, name))
        at = make.__match_args__.index(name)
        return self._columns[at] if at < len(self._columns) else Same(fields(make)[at].default)

    def has_any(self, name: str) -> bool:
        """Whether an object may have an attribute that is true."""
        found = self.column(name)
        return not isinstance(found, Same) or bool(found.value)

    def values(self, name: str) -> Iterable[Any]:
        """The values of an attribute."""
        found = self.column(name)
        return repeat(found.value, self._n) if isinstance(found, Same) else found

    def replaced(self, **columns: Any) -> Objects[Item]:
        """Returns the objects with other columns."""
        make: Any = self._make
        names = make.__match_args__
        n = max([len(self._columns), *(names.index(name) + 1 for name in columns if name in names)])
        found = [columns[name] if name in columns else self.column(name) for name in names[:n]]
        return Objects(self._make, found, self._n, self._exists)

    def take(self, rows: Sequence[int]) -> Objects[Item]:
        """Returns some of the objects, by index."""
        return self._some(
            lambda values: [*map(values.__getitem__, rows)], lambda some: some.take(rows), len(rows)
        )

    def spread(self, rows: Sequence[int]) -> Objects[Item]:
        """Returns some of the objects, by index; -1 stands for one that does not exist. No column has `Objects`."""
        columns = [
            old if isinstance(old, Same) else [*map([*old, None].__getitem__, rows)] for old in self._columns
        ]
        return Objects(self._make, columns, len(rows), [row >= 0 for row in rows])

    def lists(self) -> Iterator[list[Any]]:
        """The columns whose values differ, in all depths."""
        for values in self._columns:
            if isinstance(values, Objects):
                yield from values.lists()
            elif not isinstance(values, Same):
                yield values
        if self._exists is not None:
            yield [*self._exists]

    def with_lists(self, lists: Iterator[list[Any]], n: int) -> Objects[Item]:
        """Returns `n` other objects, which differ in the columns of `lists` only."""
        columns = [
            old
            if isinstance(old, Same)
            else old.with_lists(lists, n)
            if isinstance(old, Objects)
            else next(lists)
            for old in self._columns
        ]
        return Objects(self._make, columns, n, None if self._exists is None else next(lists))

    def _some(self, of_list: Callable[[Any], Any], of_objects: Callable[[Any], Any], n: int) -> Objects[Item]:
        columns = [
            old if isinstance(old, Same) else of_objects(old) if isinstance(old, Objects) else of_list(old)
            for old in self._columns
        ]
        return Objects(self._make, columns, n, None if self._exists is None else of_list(self._exists))

    def __len__(self) -> int:
        return self._n

    def __iter__(self) -> Iterator[Item]:
        if not self._n:
            return iter(())
        columns = [repeat(one.value, self._n) if isinstance(one, Same) else one for one in self._columns]
        if self._exists is None:
            return map(self._make, *columns)
        make: Any = self._make
        values: Any = zip(*columns, strict=True)
        every: Any = (make(*own) if one else None for one, own in zip(self._exists, values, strict=True))
        return iter(every)

    @overload
    def __getitem__(self, at: int) -> Item: ...
    @overload
    def __getitem__(self, at: slice) -> Objects[Item]: ...
    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            some = range(self._n)[at]
            return self._some(lambda values: values[at], lambda values: values[at], len(some))
        row = range(self._n)[at]
        return next(iter(self[row : row + 1]))

    def __reduce__(self) -> Any:
        return Objects, (self._make, self._columns, self._n, self._exists)


def _joined(columns: Sequence[Any], parts: Sequence[Objects[Any]]) -> Any:
    if all(isinstance(one, Same) for one in columns):
        found = column([one.value for one in columns])
        if isinstance(found, Same):
            return found
    own = zip(columns, map(len, parts), strict=True)
    return [*chain.from_iterable(repeat(one.value, n) if isinstance(one, Same) else one for one, n in own)]
