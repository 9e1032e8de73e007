"""Upserts of rows by key: deletes of the old rows and data files of the given ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from puffin_fast._api.arguments import check_flags, check_texts
from puffin_fast._text import no_column
from puffin_fast.errors import InvalidInputError, NotFoundError
from puffin_fast.rows.deletes.outcome import NewDeletes, merge_rows, paths_of_rows, united
from puffin_fast.rows.filters.struct_path import top_names
from puffin_fast.rows.keys.key_columns import key_fields
from puffin_fast.rows.match.change_feed import ChangeFeed
from puffin_fast.rows.match.duplicate_keys import DuplicateKeys, OnDuplicateKeys, refuses_duplicates
from puffin_fast.rows.match.given_changes import (
    DELETES,
    ORDER,
    check_changes,
    with_deletes_and_order,
)
from puffin_fast.rows.match.matching import Counts as Matched
from puffin_fast.rows.match.matching import Matches, Source, check_clauses, row_ids
from puffin_fast.rows.match.source_parts import source_parts
from puffin_fast.verbs.attempt import Attempt, Purpose
from puffin_fast.verbs.column_update import ReplacedRows, updated_columns
from puffin_fast.verbs.counts import Counts

if TYPE_CHECKING:
    from pyiceberg.schema import Schema


@dataclass(frozen=True, eq=False, kw_only=True)
class Upsert:
    """Replaces the rows whose key is given, and inserts the given rows whose key is new.

    Attributes:
        rows: the caller's rows, which are read once.
        join_cols, update, insert, skip_unchanged, update_columns, delete_column, order_column, changes,
            duplicate_keys: as the public functions document them; `update` and `insert` are `when_matched_update_all`
            and `when_not_matched_insert_all`.
    """

    rows: pa.RecordBatchReader
    join_cols: str | Sequence[str] | None
    update: bool = True
    insert: bool = True
    skip_unchanged: bool = True
    update_columns: Sequence[str] | None = None
    delete_column: str | None = None
    order_column: str | None = None
    changes: bool | str = False
    duplicate_keys: OnDuplicateKeys = "refuse"
    feed: ChangeFeed = field(init=False)

    def __post_init__(self) -> None:
        check_flags(skip_unchanged=self.skip_unchanged)
        refuses_duplicates(self.duplicate_keys)
        self._take_changes()
        check_clauses(self.update, self.insert, self.delete_column)
        object.__setattr__(self, "feed", ChangeFeed(self.delete_column, self.order_column))

    def _take_changes(self) -> None:
        """Makes `changes` rows with a `delete_column` and an `order_column`."""
        check_changes(self.changes, self.delete_column, self.order_column)
        if self.changes is False:
            return
        object.__setattr__(self, "rows", with_deletes_and_order(self.rows, self.changes))
        object.__setattr__(self, "delete_column", DELETES)
        object.__setattr__(self, "order_column", ORDER)

    def on(self, attempt: Attempt) -> Counts:
        schema = attempt.schema
        columns = columns_to_set(schema, self.update_columns, self.join_cols, update=self.update)
        needed = None if self.insert or (self.update and columns is None) else columns or ()
        given = attempt.once(
            self,
            lambda: source_parts(
                attempt.io, attempt.metadata, self.rows, self.join_cols, columns=needed, feed=self.feed
            ),
        )
        names = [name for name, _ in key_fields(schema, self.join_cols)]
        writer = attempt.writer(Purpose("MERGE", names, given.bounds, isolation="always", inserts=True))
        refused, counted = refuses_duplicates(self.duplicate_keys), Counter[str]()

        def deletes() -> Iterator[Iterable[NewDeletes]]:
            duplicates = DuplicateKeys()
            for source in given.parts:
                matched, part = self._replaced(attempt, source, columns, feed=writer.keeps_changes)
                counted.update(
                    rows_updated=matched.updated,
                    rows_inserted=matched.inserted,
                    rows_unchanged=matched.unchanged,
                    keys_deleted=matched.deleted,
                    rows_superseded=source.n_superseded,
                )
                if refused:
                    duplicates += matched.duplicates
                if not duplicates.n_keys:
                    yield part.deletes
                    writer.insert(part.rows, part.row_ids, part.sources)
                    for kind, rows in part.feed.items():
                        writer.record(kind, rows)
                del source, part  # the next part needs the memory
            duplicates.refuse(names)

        writer.delete(united(deletes()))
        metrics = {"Updated": "rows_updated", "Inserted": "rows_inserted"}
        if self.delete_column is not None:
            metrics["Deleted"] = "keys_deleted"
        staged = writer.stage(**{f"numTargetRows{what}": counted[name] for what, name in metrics.items()})
        return replace(staged, **counted)

    def _replaced(
        self, attempt: Attempt, source: Source, columns: Sequence[str] | None, *, feed: bool
    ) -> tuple[Matched, ReplacedRows]:
        """The changes that some given rows make to the table."""
        tasks = attempt.plan(source.keys) if source.n_keys else []
        if columns is not None:
            found = attempt.located(source.keys, tasks)
            return updated_columns(
                attempt,
                tasks,
                found,
                source,
                columns,
                insert=self.insert,
                skip_unchanged=self.skip_unchanged,
                feed=feed,
            )
        matches = Matches()
        if tasks:
            matches = attempt.matches(source, tasks, compared=self.update and self.skip_unchanged)
        n_deletes = source.n_keys - source.rows.num_rows
        counts = Matched.of(
            matches, source.n_keys, update=self.update, insert=self.insert, n_deletes=n_deletes
        )
        file, position = matches.file[counts.replaced], matches.position[counts.replaced]
        return counts, ReplacedRows(
            merge_rows(matches.tasks, file, position, attempt.loader(), attempt.threads),
            source.take(counts.written),
            row_ids(source, matches, counts),
            paths_of_rows(matches.tasks, matches.file),
            _feed(attempt, source, matches, counts) if feed else {},
        )


def _feed(attempt: Attempt, source: Source, matches: Matches, counts: Matched) -> Mapping[str, pa.Table]:
    """The rows of the change data feed; all columns of the old rows are read for it."""
    before = attempt.located(source.keys, matches.tasks).rows
    deletes = matches.source >= source.rows.num_rows
    is_update = np.isin(counts.written, matches.source)
    return {
        "update_preimage": before.filter(pa.array(counts.replaced & ~deletes)),
        "update_postimage": source.take(counts.written[is_update]),
        "insert": source.take(counts.written[~is_update]),
        "delete": before.filter(pa.array(counts.replaced & deletes)),
    }


def columns_to_set(
    schema: Schema, names: Sequence[str] | None, join_cols: str | Sequence[str] | None, *, update: bool
) -> tuple[str, ...] | None:
    """Checks `update_columns`.

    Raises:
        NotFoundError, InvalidInputError: as `upsert`.
    """
    if names is None:
        return None
    if not update:
        raise InvalidInputError("update_columns: expected when_matched_update_all=True, found False")
    columns = check_texts("update_columns", names)
    if not columns or len(set(columns)) != len(columns):
        raise InvalidInputError(f"update_columns: expected distinct columns, found {list(columns)}")
    known = dict.fromkeys(field.name for field in schema.fields)
    if missing := [name for name in columns if name not in known]:
        raise NotFoundError(f"update_columns: {no_column(', '.join(missing), known)}")
    key_ids = {field.field_id for _, field in key_fields(schema, join_cols)}
    keys = top_names(schema, key_ids.union(schema.identifier_field_ids))
    if wrong := [name for name in columns if name in keys]:
        raise InvalidInputError(
            f"update_columns: column {wrong[0]} is a key column or an identifier field; expected other columns"
        )
    return columns
