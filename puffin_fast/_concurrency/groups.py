"""Adjacent items grouped by size: for files of a target size, tasks of similar cost, large enough batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import TypeVar

T = TypeVar("T")


def split_by_size(
    items: Iterable[T],
    limit: int,
    n_bytes: Callable[[T], int],
    *,
    kind: Callable[[T], object] = lambda item: None,
    most: int | None = None,
) -> Iterator[Iterator[T]]:
    """Splits items into groups of at most ``limit`` bytes; an item above the limit is a group of its own.

    Args:
        items: taken one at a time; at most one is read ahead.
        limit: bytes of a group.
        n_bytes: size of an item.
        kind: items of different kinds are never in one group.
        most: the largest number of items of a group; by default there is none.

    Yields:
        each group, which has at least one item. It must be consumed before the next group is taken.
    """
    number = filled = count = 0
    current: object = None

    def group_of(item: T) -> int:
        nonlocal number, filled, count, current
        size, own = n_bytes(item), kind(item)
        if count and (filled + size > limit or own != current or count == most):
            number, filled, count = number + 1, 0, 0
        filled, count = filled + size, count + 1
        current = own
        return number

    for _, group in groupby(items, key=group_of):
        yield group


def bins_of(items: Iterable[T], limit: int, n_bytes: Callable[[T], int]) -> list[list[T]]:
    """Groups adjacent items as `split_by_size` does, to lists."""
    return [list(group) for group in split_by_size(items, limit, n_bytes)]


def filled_groups(items: Iterable[T], enough: int, size: Callable[[T], int]) -> Iterator[list[T]]:
    """Groups small items to lists; no item is taken before a list that has enough is yielded.

    Args:
        items: taken one at a time.
        enough: a list is yielded when it has that size. An item of that size is alone.
        size: returns the size of an item.
    """
    group: list[T] = []
    filled = 0
    for item in items:
        of_item = size(item)
        if group and of_item >= enough:
            yield group
            group, filled = [], 0
        group.append(item)
        filled += of_item
        if filled >= enough:
            yield group
            group, filled = [], 0
    if group:
        yield group
