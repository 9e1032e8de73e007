"""Finds deleted and inserted rows that belong together: copies cancel, and images of an update are pairs.

```
deleted and inserted rows of one commit
    -> same row id                    shown values equal: nothing; else an update
    -> rest: equal in what is shown   nothing, as often as both sides have the row
    -> rest: same key                 an update
    -> rest                           deletes and inserts
```
Memory: the rows of a commit that both deletes and inserts, up to a limit; more are divided among temporary files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from puffin_fast.columns.plain_types import one_array
from puffin_fast.columns.row_parts import Division, in_parts
from puffin_fast.columns.row_selection import flags_of
from puffin_fast.rows.changes.spool import Spool
from puffin_fast.rows.keys.key_hash import key_hashes
from puffin_fast.rows.match.same_values import same_values

DELETE, INSERT, PREIMAGE, POSTIMAGE = range(4)
"""The values of the column `KIND`."""

KIND = "_kind"
"""The name of the first column of rows that are paired: int8."""

_COPIES = 4
"""Memory of the pairing of rows, in copies of the rows."""

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Stage:
    """One way in which rows belong together.

    Attributes:
        columns: the places of the columns in which rows of a pair are equal; rows with a null in the first are left
            unless null equals null.
        makes_updates: whether a pair with different shown values is an update; else such rows are left.
        null_safe: whether null equals null.
    """

    columns: tuple[int, ...]
    makes_updates: bool
    null_safe: bool = True


@dataclass(frozen=True)
class Pairing:
    """Pairs rows of one schema.

    Attributes:
        stages: the ways in which rows belong together, one after the other.
        shown: the places of the columns whose values the result shows.
        limit: bytes of memory; more rows are divided among temporary files.
        updates: whether updates are pairs of images; else they are deletes and inserts.
    """

    stages: tuple[Stage, ...]
    shown: tuple[int, ...]
    limit: int
    updates: bool = True

    def lines(self, rows: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Yields the rows that remain, with their kinds; images of one update follow each other.

        Args:
            rows: at least one table, whose kinds are `DELETE` and `INSERT`.
        """
        with ExitStack() as held:
            for stage in self.stages:
                left = held.enter_context(Spool(self.limit))
                with in_parts(rows, self._division(stage), lambda part: part, "changes") as parts:
                    for part in parts:
                        yield from self._paired(stage, part, left)
                if not left:
                    return
                rows = left
            yield from rows

    def _division(self, stage: Stage) -> Division:
        def hashes(rows: pa.Table) -> npt.NDArray[np.uint64]:
            columns = [one_array(rows.column(at)) for at in stage.columns]
            return _hashes([column for column in columns if not _is_nested(column.type)], len(rows))

        return Division(hashes, lambda rows: _COPIES * int(rows.nbytes), self.limit)

    def _paired(self, stage: Stage, rows: pa.Table, left: Spool) -> Iterator[pa.Table]:
        """Yields the updates of a part; rows that do not belong together are added to `left`."""
        kinds = rows.column(0).to_numpy()
        eligible = np.ones(len(rows), np.bool_)
        if not stage.null_safe:
            eligible = rows.column(stage.columns[0]).is_valid().to_numpy()
        if not eligible.any():
            left.add(rows)
            return
        columns = [one_array(rows.column(at)) for at in stage.columns]
        deleted, inserted = equal_rows(
            columns, *(np.flatnonzero(eligible & (kinds == kind)) for kind in (DELETE, INSERT))
        )
        rest = np.ones(len(rows), np.bool_)
        rest[deleted] = rest[inserted] = False
        if stage.makes_updates and len(deleted):
            changed = ~self._same(rows, deleted, inserted)
            deleted, inserted = deleted[changed], inserted[changed]
            if len(deleted):
                both = np.stack([deleted, inserted], 1).ravel()
                names = [PREIMAGE, POSTIMAGE] if self.updates else [DELETE, INSERT]
                yield _with_kinds(rows.take(pa.array(both)), np.tile(np.array(names, np.int8), len(deleted)))
        if rest.any():
            left.add(rows if rest.all() else rows.take(pa.array(np.flatnonzero(rest))))

    def _same(self, rows: pa.Table, left: Rows, right: Rows) -> npt.NDArray[np.bool_]:
        return _same([one_array(rows.column(at)) for at in self.shown], left, right)


def _with_kinds(rows: pa.Table, kinds: npt.NDArray[np.int8]) -> pa.Table:
    return rows.set_column(0, rows.schema.field(0), pa.array(kinds))


def equal_rows(columns: Sequence[Any], deleted: Rows, inserted: Rows) -> tuple[Rows, Rows]:
    """Returns the rows of pairs of a deleted and an inserted row with the same values, each row at most once.

    Rows are paired by hashes, first of the columns of a fixed width, and the pairs compared. Rows of a hash that
    different rows have are paired again: by the hashes of all columns, then by their values.

    Args:
        columns: the values, as `same_values` compares them. Without columns, all rows are equal.
        deleted, inserted: rows, ascending.
    """
    if not columns:
        n_pairs = min(len(deleted), len(inserted))
        return deleted[:n_pairs], inserted[:n_pairs]
    found = []
    for hashed in ([c for c in columns if _is_fixed(c.type)], [c for c in columns if not _is_nested(c.type)]):
        hashes = _hashes(hashed, len(columns[0]))
        left, right = partners(hashes, deleted, inserted)
        same = _same(columns, left, right)
        if same.all():
            found.append((left, right))
            break
        unlike = np.unique(hashes[left[~same]])
        sure = ~np.isin(hashes[left], unlike)
        found.append((left[sure], right[sure]))
        deleted, inserted = (side[np.isin(hashes[side], unlike)] for side in (deleted, inserted))
    else:
        rows = np.concatenate([deleted, inserted])
        codes = np.zeros(len(columns[0]), np.int64)
        codes[rows] = codes_of([column.take(pa.array(rows)) for column in columns], len(rows))
        found.append(partners(codes, deleted, inserted))
    left, right = (np.concatenate(side) for side in zip(*found, strict=True))
    order = np.argsort(left)
    return left[order], right[order]


def _is_fixed(kind: pa.DataType) -> bool:
    return not _is_nested(kind) and pa.types.is_primitive(kind)


def _hashes(columns: Sequence[Any], n_rows: int) -> npt.NDArray[np.uint64]:
    """Equal rows have equal hashes."""
    return key_hashes([*map(_bits, columns)] or [pa.nulls(n_rows, pa.int64())])


def _bits(column: Any) -> Any:
    """Floats as the integers of their bits; integers of less than 32 bits, which cannot be keys, as wider ones."""
    if pa.types.is_integer(column.type) and column.type.bit_width < 32:
        return column.cast(pa.int32())
    if not pa.types.is_floating(column.type):
        return column
    return column.view({16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[column.type.bit_width])


def _same(columns: Sequence[Any], left: Rows, right: Rows) -> npt.NDArray[np.bool_]:
    same = np.ones(len(left), np.bool_)
    for column in columns:
        same &= same_values(column.take(pa.array(left)), column.take(pa.array(right)))
    return same


def partners(codes: npt.NDArray[Any], deleted: Rows, inserted: Rows) -> tuple[Rows, Rows]:
    """Returns the rows of pairs: of the rows with one code, the first deleted and the first inserted one, and so on.

    Args:
        codes: the codes of all rows.
        deleted, inserted: rows, ascending.
    """
    if _are_distinct(own := codes[deleted]):
        found = pc.index_in(pa.array(codes[inserted]), value_set=pa.array(own))
        partner = np.full(len(own), -1)
        at = np.flatnonzero(flags_of(found.is_valid()))[::-1]  # the first of several comes last, and counts
        partner[pc.fill_null(found, 0).to_numpy()[at]] = at
        has_one = partner >= 0
        return deleted[has_one], inserted[partner[has_one]]
    sides = [rows[np.argsort(codes[rows])] for rows in (deleted, inserted)]
    runs = [_runs(codes[rows]) for rows in sides]
    _, *places = np.intersect1d(runs[0][0], runs[1][0], assume_unique=True, return_indices=True)
    starts = [run[1][at] for run, at in zip(runs, places, strict=True)]
    lengths = np.minimum(*(run[2][at] for run, at in zip(runs, places, strict=True)))
    within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    left, right = (
        rows[np.repeat(start, lengths) + within] for rows, start in zip(sides, starts, strict=True)
    )
    order = np.argsort(left)
    return left[order], right[order]


def _are_distinct(codes: npt.NDArray[Any]) -> bool:
    ordered = np.sort(codes)
    return bool((ordered[1:] != ordered[:-1]).all())


def _runs(ordered: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], Rows, Rows]:
    """The values of an ordered array, and the start and length of the run of each."""
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])) if len(ordered) else np.arange(0)
    return ordered[starts], starts, np.diff(starts, append=len(ordered))


def codes_of(columns: Sequence[Any], n_rows: int) -> Rows:
    """Numbers rows: two rows have one number if all their values are the same, as `same_values` compares them."""
    found = np.zeros(n_rows, np.int64)
    for column in columns:
        codes = _codes(column)
        if len(codes):
            found = np.unique(found * (codes.max() + 1) + codes, return_inverse=True)[1].astype(np.int64)
    return found


def _codes(column: Any) -> Rows:
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        return _codes(column.storage)
    if pa.types.is_null(kind):
        return np.zeros(len(column), np.int64)
    if pa.types.is_struct(kind):
        valid = column.is_valid().to_numpy(zero_copy_only=False).astype(np.int64)
        return codes_of([pa.array(valid), *column.flatten()], len(column))
    if _is_nested(kind):
        column = pa.array(
            [None if value is None else repr(value) for value in column.to_pylist()], pa.string()
        )
    found: Rows = (
        pc.dictionary_encode(_bits(column), null_encoding="encode").indices.to_numpy().astype(np.int64)
    )
    return found


def _is_nested(kind: pa.DataType) -> bool:
    return pa.types.is_nested(kind) or isinstance(kind, pa.BaseExtensionType) or pa.types.is_null(kind)
