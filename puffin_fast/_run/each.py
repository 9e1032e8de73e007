"""Functions that are called for each of many items: on threads, or elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from puffin_fast._run.threads import on_threads

Item = TypeVar("Item")
Found = TypeVar("Found")


class Each(Protocol):
    """Calls a function that can be pickled for each item; gives the results in the order of the items."""

    def __call__(
        self, call: Callable[[Item], Found], items: Sequence[Item], label: str
    ) -> Iterable[Found]: ...


def each_on_threads(threads: int | None) -> Each:
    """Returns what calls functions on threads of this process."""

    def each(call: Callable[[Item], Found], items: Sequence[Item], label: str) -> Iterable[Found]:
        return on_threads(call, items, threads, label=label)

    return each
