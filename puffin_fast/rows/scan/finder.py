"""Finds rows of data files by a filter or by keys; the row groups of a large file are searched in parallel."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from puffin_fast._concurrency.streams import in_order
from puffin_fast._concurrency.workers import Pool
from puffin_fast._pyiceberg.metadata import without_history
from puffin_fast._pyiceberg.metrics import proves_all_rows
from puffin_fast.bitmap import PositionBitmap
from puffin_fast.columns.row_selection import LiveRows, mask_of
from puffin_fast.dv import iceberg as codec
from puffin_fast.rows.deletes.equality import DeletedKeys, EqualityDeletes, live_matches
from puffin_fast.rows.deletes.loader import Decode, DeleteLoader
from puffin_fast.rows.deletes.outcome import NewDeletes
from puffin_fast.rows.files.conversion import Cast, stored
from puffin_fast.rows.files.files import BATCH_ROWS
from puffin_fast.rows.files.reader import Batch, DataFiles, OpenedFile
from puffin_fast.rows.filters.pruning import BoundsProver
from puffin_fast.rows.scan.explain import Reads
from puffin_fast.rows.scan.splits import Split, data_bytes, jobs_of, threads_of
from puffin_fast.rows.tasks import PlannedTasks, Task

if TYPE_CHECKING:
    from concurrent.futures import Executor

    import pyarrow as pa
    from pyiceberg.io import FileIO
    from pyiceberg.table.metadata import TableMetadata

    from puffin_fast.rows.filters.filters import Matcher


class Finder:
    """Finds the matching rows of data files. Safe to use from several threads; can be pickled.

    Attributes:
        matcher: selects the rows.
        reads: counts what is read in this process.
    """

    def __init__(
        self,
        io: FileIO,
        metadata: TableMetadata,
        row_filter: Matcher,
        *,
        by_name: bool = False,
        cast: Cast = stored,
        decode: Decode = codec.decode,
        reads: Reads | None = None,
    ) -> None:
        schema = metadata.schema()
        self.matcher, self.reads = row_filter, reads
        self._made_by: tuple[Any, ...] = (
            partial(Finder, by_name=by_name, cast=cast, decode=decode),
            (io, metadata, row_filter),
        )
        may_match = row_filter.may_match(schema)
        self._files = DataFiles(
            io,
            metadata,
            schema,
            row_filter.field_ids,
            may_match,
            row_filter.equalities,
            row_filter.pruner(schema),
            coded=row_filter.coded,
            by_name=by_name,
            cast=cast,
        )
        self._io = io
        self._equality = EqualityDeletes(io, metadata)
        self._metrics_prove_all = proves_all_rows(
            schema, row_filter.strict_expression, row_filter.case_sensitive
        )
        self._prover = BoundsProver(schema, row_filter.strict_expression(), row_filter.case_sensitive)
        self._current = DeleteLoader(io, decode)

    def __reduce__(self) -> tuple[Any, ...]:
        make, (io, metadata, *others) = self._made_by
        return make, (io, without_history(metadata), *others)

    def proves(self, task: Task) -> bool:
        """Returns whether the metrics of a data file prove that all its rows match."""
        return self.matcher.always_true or self._metrics_prove_all(task.data)

    def provable(self, tasks: Sequence[Task]) -> Sequence[int]:
        """Returns the indexes of the data files for which `proves` may be true; of a plan, its columns are asked."""
        parts = tasks.parts if isinstance(tasks, PlannedTasks) and not self.matcher.always_true else ()
        if not parts:
            return range(len(tasks))
        found: list[int] = np.flatnonzero(np.concatenate([*map(self._prover.may_prove, parts)])).tolist()
        return found

    def deletes(self, task: Task, reads: Reads | None = None) -> NewDeletes:
        """Returns the deletes of one data file; it is read unless `proves` is true for it.

        Args:
            task: the data file.
            reads: counts what is read of it.
        """
        (found,) = _Search(self, task, 1, reads).part(0)
        return found

    def _counted(self, task: Task) -> tuple[NewDeletes, Reads]:
        reads = Reads()
        return self.deletes(task, reads), reads

    def matches(self, task: Task) -> Iterator[tuple[np.ndarray, np.ndarray, Mapping[int, pa.Array]]]:
        """Yields the batches of a data file, for a matcher that does not fail.

        Yields:
            The positions of rows, a mask of the matching ones, and the matcher's columns by field id. Rows that are
            deleted by position are among them; of a task with candidates, only these are.
        """
        assert not self.matcher.may_fail
        for batch, found in _Search(self, task, 1).batches(0):
            if (rows := batch.select()) is not None:
                yield rows.positions().to_numpy(), found, batch.filter_values

    def search(
        self, tasks: Sequence[Task], threads: int | None = None, workers: Executor | None = None
    ) -> Iterator[NewDeletes]:
        """Yields the deletes of data files, in their order; large files are searched by several threads.

        Memory holds bitmaps, and one bool per row of the files being searched.

        Args:
            threads: number of threads; by default as many as `splits.threads_of` says.
            workers: searches the data files instead of threads; each is searched as a whole.
        """
        if workers is not None:
            there = Pool(workers).each(self._counted, tasks, data_bytes, "searching data files")
            for task, (new, reads) in zip(tasks, there, strict=True):
                if self.reads is not None:
                    self.reads.opened_there(task, reads)
                yield replace(new, task=task)
            return
        n_threads = threads_of(self._io, tasks, threads)
        jobs = [*jobs_of(tasks, n_threads)]
        firsts = (split for job in jobs for split in job if split.number == 0)
        searches = {id(split.task): _Search(self, split.task, split.count, self.reads) for split in firsts}

        def work(job: Sequence[Split]) -> Iterator[list[NewDeletes]]:
            yield [found for split in job for found in searches[id(split.task)].part(split.number)]

        for found in in_order(jobs, work, n_threads, label="searching data files"):
            yield from found

    def _all_rows(self, task: Task) -> NewDeletes:
        """The deletes of a data file whose rows all match; the file is not read."""
        if task.vector is None and task.position_deletes:
            before = len(self._current.of(task))
        else:
            before = 0 if task.vector is None else task.vector.record_count
        return NewDeletes(task, None, task.data.record_count - before)


class _Search:
    """The search of one data file in parts; the last part to finish yields the result.

    Rows that are deleted by position are searched too, which is faster than to leave them out, unless the matcher may
    fail for their values.
    """

    def __init__(self, finder: Finder, task: Task, n_parts: int, reads: Reads | None = None) -> None:
        self._finder, self._task, self._n_parts, self._reads = finder, task, n_parts, reads
        self._left = n_parts
        self._lock = threading.Lock()
        self._opened: tuple[OpenedFile, list[DeletedKeys], np.ndarray] | None = None
        self._before: PositionBitmap | None = None  # the deleted rows that are not searched
        self._chosen: list[np.ndarray] = []  # the positions of the candidates that match

    def _open(self) -> tuple[OpenedFile, list[DeletedKeys], np.ndarray]:
        with self._lock:
            if self._opened is None:
                finder, task = self._finder, self._task
                keys = finder._equality.of(task.equality_deletes) if task.equality_deletes else []
                fields = [field for key in keys for field in key.fields]
                n_rows, live = task.data.record_count, None
                if finder.matcher.may_fail and (task.vector is not None or task.position_deletes):
                    self._before = finder._current.of(task)
                    live = LiveRows(self._before, n_rows)
                if task.candidates is not None:
                    some = task.candidates if self._before is None else task.candidates - self._before
                    live = LiveRows(some, n_rows, chosen=True)
                file = finder._files.open(task.data, fields, live, task.candidate_pages)
                if self._reads is not None:
                    self._reads.opened(task, file)
                self._opened = file, keys, np.zeros(0 if task.candidates is not None else n_rows, np.bool_)
            return self._opened

    def batches(self, number: int) -> Iterator[tuple[Batch, np.ndarray]]:
        """Yields the batches of one part, each with a mask of the matching rows that are not deleted by equality."""
        file, keys, _ = self._open()
        matcher = self._finder.matcher
        batches = file.part(number, self._n_parts).batches(batch_rows=max(BATCH_ROWS, matcher.batch_rows))
        for batch in batches:
            found = live_matches(matcher, keys, batch)
            yield batch, np.ones(batch.n_rows, np.bool_) if found is None else found

    def part(self, number: int) -> Iterator[NewDeletes]:
        """Searches one part; yields the result after the last."""
        finder, task = self._finder, self._task
        if finder.proves(task):
            if number == 0:
                yield finder._all_rows(task)
            return
        if task.candidates is not None and task.candidates_match and not task.equality_deletes:
            if number == 0:
                yield NewDeletes.merge(task, task.candidates, finder._current)
            return
        mask = self._open()[2]
        for batch, found in self.batches(number):
            if batch.is_whole and task.candidates is None:
                mask[batch.first : batch.first + batch.n_rows] = found
            elif (rows := batch.select(mask_of(found))) is None:
                continue
            elif task.candidates is not None:
                self._chosen.append(rows.positions().to_numpy())
            else:
                mask[rows.positions().to_numpy()] = True
        with self._lock:
            self._left -= 1
            if self._left:
                return
        self._opened = None
        before = self._before
        if task.candidates is not None:
            positions = PositionBitmap.from_positions(np.concatenate([np.empty(0, np.int64), *self._chosen]))
        else:
            positions = PositionBitmap.from_mask(mask)
        if before is None:
            yield NewDeletes.merge(task, positions, finder._current)
        else:
            yield NewDeletes.added(task, positions, before)
