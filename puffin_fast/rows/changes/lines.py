"""Reads the rows that changed, as Arrow batches with their kind of change and their commit.

```
plain layout    shown columns | requested metadata columns                          where nothing pairs
paired layout   shown columns | key columns | requested metadata columns | _row_id | _side
                                                        where a commit deletes and inserts, or commits share rows
lineage layout  _row_id | _last_updated_sequence_number | _pos                      the same, of whole files
feed layout     shown columns | key columns | _change_type                          files of changes that a commit wrote
```
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from puffin_fast._concurrency.streams import in_order
from puffin_fast._process.cached import cached_property
from puffin_fast.errors import CorruptDataError, NotFoundError
from puffin_fast.rows.changes.copies import without_copies
from puffin_fast.rows.changes.pairing import DELETE, INSERT, KIND, POSTIMAGE, PREIMAGE, Pairing, Stage
from puffin_fast.rows.changes.shared_rows import HELD_BYTES, HeldRows, SharedRows, Side, held_bytes
from puffin_fast.rows.changes.states import ChangedRows, Commit, CommitChanges, FileStates
from puffin_fast.rows.files.metadata_columns import MetadataColumn
from puffin_fast.rows.scan.file_reader import FileReader
from puffin_fast.rows.scan.splits import jobs_of
from puffin_fast.rows.tasks import Task

CHANGE_TYPE = "_change_type"
"""The column of the kind of change."""

WORDS = ("delete", "insert", "update_preimage", "update_postimage")
"""The words of `CHANGE_TYPE`, by kind."""


def _no_kinds(batch: Any) -> pa.Array:
    return pa.nulls(batch.n_rows, pa.string())


FEED_COLUMN = MetadataColumn(CHANGE_TYPE, 2147483545, pa.string(), False, _no_kinds)
"""The column of the kind of change in feed files, by its id in Iceberg's specification ("Reserved Field IDs")."""

_TIME = pa.timestamp("us", "UTC")

Kinds: TypeAlias = "npt.NDArray[np.int8]"
"""The kinds of rows, by their place in `WORDS`."""

_Window: TypeAlias = list[tuple[CommitChanges, ChangedRows]]
"""Commits that are read together, with their rows."""

MakeReader: TypeAlias = Callable[[], FileReader]
"""Makes the reader of a table's data files for one layout; can be pickled."""


def commit_fields(number: str, *, ordinal: bool) -> list[pa.Field]:
    """Returns the columns of changes that follow the table's columns.

    Args:
        number: the name of the column of the snapshot id or version.
        ordinal: whether there is a column of the place of the commit.
    """
    fields = [
        pa.field(CHANGE_TYPE, pa.string()),
        pa.field(number, pa.int64()),
        pa.field("_commit_timestamp", _TIME),
    ]
    return [*fields, pa.field("_change_ordinal", pa.int32())] if ordinal else fields


def read_tasks(
    make: MakeReader, tasks: Sequence[Task], threads: int | None = None
) -> Iterator[pa.RecordBatch]:
    """Yields the rows of tasks in their order. Its arguments can be pickled, so an executor can read a part of a plan.

    Args:
        tasks: the tasks of `ChangedRows`, or a part of them.
        threads: number of data files that are read at a time.
    """
    reader = make()
    with reader.prepared(tasks, threads) as (threads, ahead):
        found = in_order(
            list(jobs_of(tasks, threads)), reader.read_all, threads, capacity=ahead, label="reading changes"
        )
        for batches in found:
            yield batches[0] if len(batches) == 1 else pa.concat_batches(batches)


@dataclass(frozen=True)
class ChangeReader:
    """Reads the lines of the changes of commits. It can be pickled before it is used.

    Attributes:
        make_states: makes what compares states of data files; can be pickled.
        plain, paired, lineage, feed: make readers of the layouts; `feed` is None for formats without feed files.
        shared: divides rows that several commits need; the last column of the paired layout is its.
        pairing: how rows are paired; its places count the column `KIND`.
        shown: number of shown columns.
        keys: number of key columns of the paired layout.
        extra: number of requested metadata columns.
        schema: the schema of the lines.
        ordinal: whether lines have the place of their commit.
        is_filtered: whether not all rows are read.
        threads: number of data files that are read at a time.
    """

    make_states: Callable[[], FileStates]
    plain: MakeReader
    paired: MakeReader
    lineage: MakeReader
    feed: MakeReader | None
    shared: SharedRows
    pairing: Pairing
    shown: int
    keys: int
    extra: int
    schema: pa.Schema
    ordinal: bool
    is_filtered: bool
    threads: int | None

    def lines(self, plan: Iterable[CommitChanges]) -> Iterator[pa.RecordBatch]:
        """Yields the lines of commits, one after the other; no batch is empty.

        Raises:
            NotFoundError: a file of the state before or after a commit does not exist.
        """
        for commit, batch, kinds in chain.from_iterable(map(self._read, self._windows(plan))):
            if batch.num_rows:
                yield self._line(batch, kinds, commit)

    def changed_rows(self, changes: CommitChanges) -> ChangedRows:
        """Returns the deleted and the inserted rows of a commit, without those that are copies by their lineage."""
        found = self.states.changed_rows(changes.files, self.threads)
        return without_copies(self.lineage, found, self.threads)

    def count(self, plan: Iterable[CommitChanges]) -> int:
        """Returns the number of lines; rows are read only if they may pair, are filtered, or deleted by equality."""
        n_lines = 0
        for window in self._windows(plan):
            read = []
            for changes, rows in window:
                tasks = rows.deleted or rows.inserted
                one_side = not (rows.deleted and rows.inserted) and not (self.is_filtered or changes.feed)
                if one_side and not any(task.equality_deletes for task in tasks):
                    with _needed_by(changes.commit):
                        n_lines += sum(map(self._counter.n_live, tasks))
                else:
                    read.append((changes, rows))
            n_lines += sum(batch.num_rows for _, batch, _ in self._read(read))
        return n_lines

    def _windows(self, plan: Iterable[CommitChanges]) -> Iterator[_Window]:
        """Groups commits, so that the rows that one reads for others have limited memory."""
        window: _Window = []
        known: set[str] = set()
        filled = 0
        for changes in plan:
            with _needed_by(changes.commit):
                rows = self.changed_rows(changes)
            tasks = [task for side in (rows.deleted, rows.inserted) for task in side]
            size = sum(held_bytes(task) for task in tasks if task.data.file_path in known)
            size += sum(task.chosen.n_bytes for task in tasks if task.chosen is not None)
            if window and filled + size > self._held_bytes:
                yield window
                window, filled = [], 0
                known.clear()
            window.append((changes, rows))
            known.update(task.data.file_path for task in tasks)
            filled += size
        if window:
            yield window

    @cached_property
    def states(self) -> FileStates:
        """Compares states of data files."""
        return self.make_states()

    @property
    def _held_bytes(self) -> int:
        return min(self.pairing.limit, HELD_BYTES)

    @cached_property
    def _counter(self) -> FileReader:
        return self.plain()

    def _read(self, window: _Window) -> Iterator[tuple[Commit, pa.RecordBatch, Kinds]]:
        """Yields the rows of commits that remain after pairing, with their kinds."""
        sides = self.shared.divide([side for _, rows in window for side in (rows.deleted, rows.inserted)])
        with HeldRows(self.shared, len(sides), self._held_bytes) as held:
            for number, (changes, rows) in enumerate(window):
                with _needed_by(changes.commit):
                    if changes.feed:
                        found = self._feed_lines(changes.feed)
                    else:
                        is_paired = bool(rows.deleted and rows.inserted)
                        found = self._row_lines(sides[2 * number :][:2], held, is_paired=is_paired)
                    for batch, kinds in found:
                        yield changes.commit, batch, kinds

    def _feed_lines(self, tasks: Sequence[Task]) -> Iterator[tuple[pa.RecordBatch, Kinds]]:
        """The lines of feed files. The images of an update that changes no shown value cancel each other."""
        assert self.feed is not None
        image = 1 + self.shown + self.keys
        stages = [Stage((*self.pairing.shown, image), False)]
        if self.keys and self.pairing.updates:
            stages.append(Stage((*range(1 + self.shown, image), image), True))
        rows = (
            _with_image(batch, tasks[0].data.file_path)
            for batch in read_tasks(self.feed, tasks, self.threads)
        )
        yield from self._paired(rows, replace(self.pairing, stages=tuple(stages)), image)

    def _row_lines(
        self, sides: Sequence[Side], held: HeldRows, *, is_paired: bool
    ) -> Iterator[tuple[pa.RecordBatch, Kinds]]:
        """The lines of the deleted and the inserted rows of a commit."""

        def read(side: Side) -> Iterator[pa.RecordBatch]:
            return held.own(side, read_tasks(self.paired, side.tasks, self.threads))

        both = [*zip((DELETE, INSERT), sides, strict=True)]
        if is_paired:
            rows = (
                _with_kind(batch, np.full(batch.num_rows, kind, np.int8))
                for kind, side in both
                for batch in read(side)
            )
            yield from self._paired(rows, self.pairing)
            return
        for kind, side in both:
            batches: Iterator[pa.RecordBatch]
            if held.concern(side):
                batches = (_batch(self._shown(batch.columns), batch.num_rows) for batch in read(side))
            else:
                batches = read_tasks(self.plain, side.tasks, self.threads)
            for batch in batches:
                yield batch, np.full(batch.num_rows, kind, np.int8)

    def _shown(self, columns: Sequence[pa.Array]) -> list[pa.Array]:
        """The shown columns and the requested metadata columns of the paired or the feed layout."""
        return [*columns[: self.shown], *columns[self.shown + self.keys :][: self.extra]]

    def _paired(
        self, tables: Iterable[pa.Table], pairing: Pairing, image: int | None = None
    ) -> Iterator[tuple[pa.RecordBatch, Kinds]]:
        """Pairs rows; `image` is the column of feed files that says which rows are images of updates."""
        iterator = iter(tables)
        first = next(iterator, None)
        if first is None:
            return
        for table in pairing.lines(chain([first], iterator)):
            for batch in table.to_batches():
                kinds = batch.column(0).to_numpy()
                if image is not None and pairing.updates:
                    is_left = (batch.column(image).to_numpy() == 1) & (kinds <= INSERT)
                    kinds = np.where(is_left, kinds + PREIMAGE, kinds).astype(np.int8)
                yield _batch(self._shown(batch.columns[1:]), batch.num_rows), kinds

    def _line(self, batch: pa.RecordBatch, kinds: Kinds, commit: Commit) -> pa.RecordBatch:
        n_rows = batch.num_rows
        added = [
            pa.array(WORDS, pa.string()).take(pa.array(kinds)),
            pa.repeat(pa.scalar(commit.number, pa.int64()), n_rows),
            pa.repeat(pa.scalar(commit.timestamp_ms * 1000, _TIME), n_rows),
        ]
        if self.ordinal:
            added.append(pa.repeat(pa.scalar(commit.ordinal, pa.int32()), n_rows))
        columns = batch.columns[: self.shown + self.extra]
        return pa.RecordBatch.from_arrays(
            [*columns[: self.shown], *added, *columns[self.shown :]], schema=self.schema
        )


@contextmanager
def _needed_by(commit: Commit) -> Iterator[None]:
    """Adds to errors about missing files which commit needs them: the table may no longer list them."""
    try:
        yield
    except NotFoundError as error:
        raise NotFoundError(
            f"{error}; the changes of {commit.number} need it, and a clean-up of older states may have removed it"
        ) from error


def _batch(columns: Sequence[pa.Array], n_rows: int) -> pa.RecordBatch:
    if columns:
        return pa.RecordBatch.from_arrays(list(columns), names=[*map(str, range(len(columns)))])
    return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), n_rows, [None]))


def _with_kind(batch: pa.RecordBatch, kinds: Kinds) -> pa.Table:
    names = [KIND, *map(str, range(batch.num_columns))]
    return pa.Table.from_arrays([pa.array(kinds), *batch.columns], names=names)


def _with_image(batch: pa.RecordBatch, path: str) -> pa.Table:
    """Rows of a feed file with `KIND`, and whether they are images of updates instead of their kind of change."""
    *columns, words = batch.columns
    found = pc.index_in(words, pa.array(WORDS, words.type))
    if found.null_count:
        wrong = words.filter(found.is_null())[0].as_py()
        raise CorruptDataError(
            f"{CHANGE_TYPE} of a feed file", path=path, expected=", ".join(WORDS), found=wrong
        )
    kinds = found.to_numpy().astype(np.int8)
    is_image = kinds >= PREIMAGE
    kept = pa.RecordBatch.from_arrays(
        [*columns, pa.array(is_image.astype(np.int8))], names=[*map(str, range(batch.num_columns))]
    )
    return _with_kind(kept, np.where(is_image, kinds - PREIMAGE, kinds).astype(np.int8))


assert tuple(range(len(WORDS))) == (DELETE, INSERT, PREIMAGE, POSTIMAGE)
