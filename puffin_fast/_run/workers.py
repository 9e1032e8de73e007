"""Runs functions elsewhere, on a `concurrent.futures.Executor`: processes here, or of Dask, loky, MPI or Ray.

The function changes nothing outside of its worker, so that a bin may be run again after a worker ended.
"""

from __future__ import annotations

import pickle
import uuid
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, wait
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from typing import Any, Generic, Protocol, TypeVar

from puffin_fast._run.groups import bins_of
from puffin_fast._run.progress import progress
from puffin_fast._run.threads import on_threads
from puffin_fast._text import shown_argument
from puffin_fast.errors import InvalidInputError, PuffinFastError, UnsupportedError

ASSUMED_WORKERS = 8
"""Number of workers of an executor that does not tell it."""

AHEAD = 2
"""Number of bins per worker that are submitted before their results are taken."""

BINS_PER_WORKER = 8
"""Number of bins per worker that suffices for workers to finish at about the same time."""

SMALLEST_BIN = 1 << 20
"""Minimum bytes of a bin, if there are enough items: to hand over a bin takes a few milliseconds."""

LARGEST_BIN = 64 << 20
"""Maximum bytes of a bin; a larger item is a bin of its own."""

KEPT = 4
"""Maximum number of functions that a worker keeps for its next bins."""

Item = TypeVar("Item")
Result = TypeVar("Result")

_kept: OrderedDict[str, Callable[[Any], Any]] = OrderedDict()


def check_workers(workers: object) -> None:
    """Checks the argument `workers`; None is valid.

    Raises:
        InvalidInputError: it is no executor.
    """
    if workers is not None and not isinstance(workers, Executor):
        raise InvalidInputError(
            f"workers: expected a concurrent.futures.Executor, or None, found {shown_argument(workers)}"
        )


def on_workers(
    executor: Executor,
    body: Callable[[Sequence[Item]], Result],
    items: Sequence[Item],
    n_bytes: Callable[[Item], int],
    *,
    label: str | None = None,
    settled: bool = False,
) -> Iterator[tuple[Sequence[Item], Result]]:
    """Calls `body` for bins of items on workers; yields the bins and the results, in the order of the items.

    The results of at most `AHEAD` bins for each worker are held.

    Args:
        executor: runs the calls. It is not shut down.
        body: can be pickled, and so can its result.
        items: can be pickled.
        n_bytes: returns the bytes of files that are read for an item.
        label: as `progress` takes it; the items are counted.
        settled: whether all calls that began have ended when an error is raised.

    Raises:
        InvalidInputError: the executor accepts no work.
        UnsupportedError: the function or an item cannot be pickled.
        PuffinFastError: a worker ended, or the executor was shut down. Errors of `body` are raised as they are.
    """
    n_workers = getattr(executor, "_max_workers", None) or ASSUMED_WORKERS
    share = sum(map(n_bytes, items)) // (BINS_PER_WORKER * n_workers)
    bins = iter(bins_of(items, min(LARGEST_BIN, max(SMALLEST_BIN, share)), n_bytes))
    call = _Call.of(body)
    waiting: deque[tuple[list[Item], Future[Result]]] = deque()

    def results() -> Iterator[tuple[list[Item], Result]]:
        for items in islice(bins, AHEAD * n_workers):
            waiting.append((items, _submitted(executor, call, items)))
        while waiting:
            items, future = waiting.popleft()
            result = _result(future)
            if (more := next(bins, None)) is not None:
                waiting.append((more, _submitted(executor, call, more)))
            yield items, result

    try:
        yield from progress(results(), label, counted=lambda found: len(found[0]))
    finally:
        left = [future for _, future in waiting if not future.cancel()]
        if settled:
            wait(left)


class Each(Protocol):
    """Calls a function for each item, here or elsewhere; gives the results in the order of the items.

    The function, the items and the results can be pickled. An item may get a second call if a worker ends.

    Args:
        call: the function.
        items: the items.
        n_bytes: returns the bytes of files that are read for an item.
        label: as `progress` takes it.
    """

    def __call__(
        self,
        call: Callable[[Item], Result],
        items: Sequence[Item],
        n_bytes: Callable[[Item], int],
        label: str,
    ) -> Iterable[Result]: ...


def each_on(workers: Executor | None, threads: int | None = None, *, settled: bool = False) -> Each:
    """Returns what calls functions on workers, or on threads of this process.

    Args:
        workers: as for `on_workers`; None: threads.
        threads: as for `on_threads`.
        settled: as for `on_workers`.
    """

    def each(
        call: Callable[[Item], Result],
        items: Sequence[Item],
        n_bytes: Callable[[Item], int],
        label: str,
    ) -> Iterator[Result]:
        if workers is None:
            return on_threads(call, items, threads, label=label)
        body = partial(_each, call)
        found = on_workers(workers, body, items, n_bytes, label=label, settled=settled)
        return chain.from_iterable(results for _, results in found)

    return each


def _each(call: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    return [*map(call, items)]


@dataclass(frozen=True)
class _Call(Generic[Item, Result]):
    """A pickled function, which a worker unpickles once."""

    token: str
    body: bytes = field(repr=False)

    @classmethod
    def of(cls, body: Callable[[Sequence[Item]], Result]) -> _Call[Item, Result]:
        try:
            return cls(uuid.uuid4().hex, pickle.dumps(body, pickle.HIGHEST_PROTOCOL))
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            raise UnsupportedError(
                f"workers: expected a table and a filter that can be pickled, found {error}"
            ) from error

    def __call__(self, items: Sequence[Item]) -> Result:
        body = _kept.get(self.token)
        if body is None:
            body = _kept[self.token] = pickle.loads(self.body)
            while len(_kept) > KEPT:
                _kept.popitem(last=False)
        result: Result = body(items)
        return result


def _submitted(executor: Executor, call: _Call[Item, Result], items: list[Item]) -> Future[Result]:
    try:
        return executor.submit(call, items)
    except BrokenExecutor as error:
        raise PuffinFastError(f"workers: a worker ended while it worked: {error}") from error
    except RuntimeError as error:  # an executor that was shut down
        raise InvalidInputError(f"workers: expected an executor that accepts work: {error}") from error


def _result(future: Future[Result]) -> Result:
    try:
        return future.result()
    except BrokenExecutor as error:
        raise PuffinFastError(f"workers: a worker ended while it worked: {error}") from error
    except CancelledError as error:
        raise PuffinFastError("workers: the executor was shut down while it worked") from error
