"""Who does the work: threads, an executor of `concurrent.futures` (processes here, or of Dask or Ray), or Spark.

A function may be called again for an item after a worker ended: it changes nothing outside of its worker but files with
names that no other call uses.
"""

from __future__ import annotations

import pickle
import uuid
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from itertools import chain, islice
from typing import Any, Generic, Protocol, TypeVar

from puffin_fast._concurrency.groups import bins_of
from puffin_fast._concurrency.progress import progress
from puffin_fast._concurrency.threads import check_threads, on_threads
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

OPEN_BYTES = 512 << 10
"""The cost of opening a file, expressed as bytes that are read."""

KEPT = 4
"""Maximum number of functions that a worker keeps for its next bins."""

Item = TypeVar("Item")
Result = TypeVar("Result")

_attempt = "driver"
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
    n_workers = _n_workers(executor)
    bins = iter(bins_of(items, _bin_bytes(executor, sum(map(n_bytes, items))), n_bytes))
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


def _n_workers(executor: Executor) -> int:
    return getattr(executor, "_max_workers", None) or ASSUMED_WORKERS


def _bin_bytes(executor: Executor, n_bytes: int) -> int:
    return min(LARGEST_BIN, max(SMALLEST_BIN, n_bytes // (BINS_PER_WORKER * _n_workers(executor))))


def attempt() -> str:
    """Returns what distinguishes names of files that this process writes from those of other workers and attempts."""
    return _attempt


@contextmanager
def as_attempt(name: str) -> Iterator[None]:
    """What this process does in the block is an attempt of a task."""
    global _attempt
    before, _attempt = _attempt, name
    try:
        yield
    finally:
        _attempt = before


class Workers(Protocol):
    """Calls functions for items; gives the results in the order of the items."""

    def each(
        self,
        call: Callable[[Item], Result],
        items: Sequence[Item],
        n_bytes: Callable[[Item], int],
        label: str,
        *,
        run: str | None = None,
    ) -> Iterable[Result]:
        """Calls a function for each item. When it raises an error, all calls have ended, except those of Spark.

        Args:
            call: the function. It, the items and the results can be pickled, unless threads do the work.
            items: the items.
            n_bytes: returns the bytes of files that are read for an item.
            label: as `progress` takes it.
            run: the name of the run, which is a tag of Spark's jobs.
        """

    def united(
        self,
        call: Callable[[Sequence[Item]], Mapping[int, Result]],
        items: Sequence[Item],
        n_bytes: Callable[[Item], int],
        unite: Callable[[Sequence[Result]], Result],
        label: str,
    ) -> Mapping[int, Result]:
        """Calls a function for bins of items; unites the results of each key, which is an integer.

        Args:
            call: the function. It, the items and the results can be pickled.
            items, n_bytes, label: as for `each`.
            unite: returns the union of some results; of a union and others, too.
        """

    def bin_bytes(self, n_bytes: int) -> int:
        """Returns the bytes of files that one worker reads at a time.

        Args:
            n_bytes: the bytes of all files.
        """


@dataclass(frozen=True)
class Threads:
    """Threads of this process.

    Attributes:
        n: their number; by default the number of processors.
    """

    n: int | None = None

    def each(
        self,
        call: Callable[[Item], Result],
        items: Sequence[Item],
        n_bytes: Callable[[Item], int],
        label: str,
        *,
        run: str | None = None,
    ) -> Iterator[Result]:
        return on_threads(call, items, self.n, label=label)

    def united(
        self,
        call: Callable[[Sequence[Item]], Mapping[int, Result]],
        items: Sequence[Item],
        n_bytes: Callable[[Item], int],
        unite: Callable[[Sequence[Result]], Result],
        label: str,
    ) -> Mapping[int, Result]:
        return united(on_threads(call, [[item] for item in items], self.n, label=label), unite)

    def bin_bytes(self, n_bytes: int) -> int:
        return LARGEST_BIN


@dataclass(frozen=True)
class Pool:
    """The workers of an executor."""

    executor: Executor

    def each(
        self,
        call: Callable[[Item], Result],
        items: Sequence[Item],
        n_bytes: Callable[[Item], int],
        label: str,
        *,
        run: str | None = None,
    ) -> Iterator[Result]:
        found = on_workers(self.executor, partial(_each, call), items, n_bytes, label=label, settled=True)
        return chain.from_iterable(results for _, results in found)

    def united(
        self,
        call: Callable[[Sequence[Item]], Mapping[int, Result]],
        items: Sequence[Item],
        n_bytes: Callable[[Item], int],
        unite: Callable[[Sequence[Result]], Result],
        label: str,
    ) -> Mapping[int, Result]:
        found = on_workers(self.executor, call, items, n_bytes, label=label)
        return united((results for _, results in found), unite)

    def bin_bytes(self, n_bytes: int) -> int:
        return _bin_bytes(self.executor, n_bytes)


def workers_of(workers: Any, threads: int | None = None) -> Workers:
    """Returns who does the work, as the argument `workers` says.

    Args:
        workers: an executor, a SparkSession, a DataFrame of it, or None: threads.
        threads: the number of threads.

    Raises:
        InvalidInputError: it is something else, or the number of threads is below 1.
    """
    check_threads(threads)
    if workers is None:
        return Threads(threads)
    if isinstance(workers, Executor):
        return Pool(workers)
    if type(workers).__module__.partition(".")[0] == "pyspark":
        found: Workers = import_module("puffin_fast.spark.session.workers").spark_workers(workers)
        return found
    raise InvalidInputError(
        "workers: expected a concurrent.futures.Executor, a SparkSession, or None, found "
        f"{shown_argument(workers)}"
    )


def united(
    parts: Iterable[Mapping[int, Result]], unite: Callable[[Sequence[Result]], Result]
) -> dict[int, Result]:
    """Unites the results of each key of several mappings, as `Workers.united`."""
    found: dict[int, Result] = {}
    for part in parts:
        for key, result in part.items():
            found[key] = unite((found[key], result)) if key in found else result
    return found


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
        with as_attempt("worker"):
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
