"""PyIceberg's own verbs on tables of format version 3, which it cannot write.

They are `append`, `add_files`, `delete`, `overwrite`, `upsert`, `dynamic_partition_overwrite`, and transactions of
these.
PyIceberg's `Table` runs each verb in a transaction that `Table.transaction` makes. The one here stages the verbs in a
transaction of this package, so that they make one snapshot: deletes are deletion vectors, and rows keep their row ids.
Arguments and results are those of PyIceberg. Changes of metadata in the same transaction, and the creation of the
table, are sent with the snapshot. Transactions that change metadata only are PyIceberg's own, committed within
`v3_metadata`; verbs on tables of other versions are PyIceberg's own. Catalogs that write metadata in this process
create tables of version 3 (property ``format-version``).

No release of PyIceberg ends this: 0.12.0 and its main branch of August 2026 write no manifests of version 3 (issue 3620
of iceberg-python), no row ids (3621), and no deletion vectors (1078).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any

from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.expressions.parser import parse
from pyiceberg.table import (
    CreateTableTransaction,
    StagedTable,
    Table,
    TableProperties,
    Transaction,
    UpsertResult,
)
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
    SetSnapshotRefUpdate,
    UpgradeFormatVersionUpdate,
)
from pyparsing import ParseException

from puffin_fast.acceleration import Patch
from puffin_fast.columns.arrow_rows import arrow_rows
from puffin_fast.errors import UnsupportedError
from puffin_fast.iceberg.commit.request import Request
from puffin_fast.iceberg.compat.staged_table import (
    StagedUpdates,
    sendable,
    stageable,
    with_staged_updates,
    with_updates,
)
from puffin_fast.iceberg.compat.table_metadata import v3_metadata
from puffin_fast.iceberg.compat.table_updates import UpgradeToV3
from puffin_fast.iceberg.dml.added_files import AddFiles
from puffin_fast.iceberg.dml.attempt import IcebergAttempt
from puffin_fast.rows.filters.grammar import parse_filter
from puffin_fast.verbs.options import Options
from puffin_fast.verbs.overwrite import Append
from puffin_fast.verbs.results import AppendResult
from puffin_fast.verbs.transaction import Transaction as VerbTransaction

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.table.update import TableRequirement, TableUpdate

_NO_PROPERTIES: Mapping[str, str] = {}

_append, _do_commit, _make_create = Table.append, Table._do_commit, CreateTableTransaction.__init__

_OF_SNAPSHOTS = (
    AddSnapshotUpdate,
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
    SetSnapshotRefUpdate,
)
"""Changes that a transaction with rows refuses."""


def _transaction(self: Table) -> Transaction:
    """Replaces `Table.transaction`."""
    return _V3Transaction(self)


def _init_create(self: CreateTableTransaction, table: StagedTable) -> None:
    """Replaces `CreateTableTransaction.__init__`."""
    _make_create(self, table)
    if table.metadata.format_version == 3:
        self.__class__ = _V3CreateTransaction
        self._updates = stageable(self._updates)
        _begin(self)


def _append_rows(
    self: Table,
    df: pa.Table | pa.RecordBatchReader,
    snapshot_properties: Mapping[str, str] = _NO_PROPERTIES,
    branch: str | None = MAIN_BRANCH,
) -> None:
    """Replaces `Table.append`, so that a reader is streamed: a transaction would hold its rows in memory."""
    if self.metadata.format_version == 3:
        options = Options(
            verb="append", branch=_branch(branch), snapshot_properties=dict(snapshot_properties)
        )
        IcebergAttempt(self, options).run(Append(df), AppendResult)
    else:
        _append(self, df, dict(snapshot_properties), branch)


def _commit(
    self: Table, updates: tuple[TableUpdate, ...], requirements: tuple[TableRequirement, ...]
) -> None:
    """Replaces `Table._do_commit`, so that PyIceberg's changes of metadata are written on tables of version 3."""
    if self.metadata.format_version == 3 or any(isinstance(update, UpgradeToV3) for update in updates):
        with v3_metadata(self.catalog):
            _do_commit(self, sendable(self.catalog, updates), requirements)
    else:
        _do_commit(self, updates, requirements)


def _branch(branch: str | None) -> str:
    if branch is None:
        raise UnsupportedError("branch=None: expected the name of a branch, for a table of format version 3")
    return branch


def _begin(transaction: Any) -> None:
    """Gives a transaction its state here."""
    transaction._verbs = transaction._branch = transaction._staged = transaction._rows_table = None
    transaction._properties = {}


class _V3Transaction(Transaction):
    """A transaction of PyIceberg whose verbs are those of this package on version 3; see above."""

    _verbs: VerbTransaction | None
    _branch: str | None
    _properties: dict[str, str]
    _staged: StagedUpdates | None
    _rows_table: Table | None
    _n_before: int

    def __init__(self, table: Table, autocommit: bool = False) -> None:
        super().__init__(table, autocommit)
        _begin(self)

    @property
    def _is_v3(self) -> bool:
        return self._verbs is not None or self.table_metadata.format_version == 3

    def _begun(self, branch: str | None, snapshot_properties: Mapping[str, str]) -> VerbTransaction:
        """The transaction of this package; all verbs make one snapshot, which has the properties of all of them."""
        name = _branch(branch)
        Request(snapshot_properties=dict(snapshot_properties))  # checks the names
        if self._branch not in (None, name):
            raise UnsupportedError(
                f"transaction: expected verbs on one branch, found {self._branch} and {name}"
            )
        if self._verbs is not None and self._staged is not None and len(self._updates) > self._n_before:
            self._refuse("changes of metadata between changes of rows", "rows first or metadata first")
        self._properties.update(snapshot_properties)
        if self._verbs is None:
            table, self._n_before = self._table, len(self._updates)
            self._check_kinds(self._updates)
            self._staged = StagedUpdates(self._updates, self._requirements)
            table = with_staged_updates(self._table, self._staged)
            self._rows_table = table
            options = Options(verb="transaction", branch=name, snapshot_properties=self._properties)
            self._verbs = VerbTransaction(partial(IcebergAttempt, table, options))
            self._verbs.__enter__()
            self._branch = name
        return self._verbs

    def _check_kinds(self, updates: Iterable[TableUpdate]) -> None:
        """Refuses changes that move branches or snapshots, as the rows do."""
        if any(isinstance(update, _OF_SNAPSHOTS) for update in updates):
            self._refuse("changes of snapshots or branches, and of rows", "a transaction for each")

    def _refuse(self, found: str, expected: str) -> None:
        name = ".".join(self._table.name())
        raise UnsupportedError(
            f"{name}: nothing was committed: expected {expected} in a transaction on a table of format version 3, "
            f"found {found}"
        )

    def _stage(self, updates: Any, requirements: Any = ()) -> Transaction:
        if self._verbs is not None:
            self._check_kinds(updates)
        return super()._stage(updates, requirements)

    def upgrade_table_version(self, format_version: Any) -> Transaction:
        if format_version != 3:
            return super().upgrade_table_version(format_version)
        if self.table_metadata.format_version < 3:
            self._apply(stageable([UpgradeFormatVersionUpdate.model_validate({"format-version": 3})]))
        return self

    def append(
        self,
        df: pa.Table | pa.RecordBatchReader,
        snapshot_properties: Mapping[str, str] = _NO_PROPERTIES,
        branch: str | None = MAIN_BRANCH,
    ) -> None:
        if not self._is_v3:
            return super().append(df, dict(snapshot_properties), branch)
        self._begun(branch, snapshot_properties).append(df)
        return None

    def delete(
        self,
        delete_filter: str | BooleanExpression,
        snapshot_properties: Mapping[str, str] = _NO_PROPERTIES,
        case_sensitive: bool = True,
        branch: str | None = MAIN_BRANCH,
        _isolation_operation: Any = None,
    ) -> None:
        if not self._is_v3:
            options = {} if _isolation_operation is None else {"_isolation_operation": _isolation_operation}
            super().delete(delete_filter, dict(snapshot_properties), case_sensitive, branch, **options)
            return
        self._check_mode(TableProperties.DELETE_MODE)
        verbs = self._begun(branch, snapshot_properties)
        done = verbs.delete(_expression(delete_filter), case_sensitive=case_sensitive)
        if not done.rows_deleted:
            warnings.warn("Delete operation did not match any records", stacklevel=2)

    def overwrite(
        self,
        df: pa.Table | pa.RecordBatchReader,
        overwrite_filter: BooleanExpression | str = AlwaysTrue(),  # noqa: B008
        snapshot_properties: Mapping[str, str] = _NO_PROPERTIES,
        case_sensitive: bool = True,
        branch: str | None = MAIN_BRANCH,
    ) -> None:
        if not self._is_v3:
            super().overwrite(df, overwrite_filter, dict(snapshot_properties), case_sensitive, branch)
            return
        self._check_mode(TableProperties.DELETE_MODE)
        row_filter = _expression(overwrite_filter)
        verbs = self._begun(branch, snapshot_properties)
        verbs.overwrite(df, row_filter, case_sensitive=case_sensitive)

    def dynamic_partition_overwrite(
        self,
        df: pa.Table,
        snapshot_properties: Mapping[str, str] = _NO_PROPERTIES,
        branch: str | None = MAIN_BRANCH,
    ) -> None:
        if not self._is_v3:
            super().dynamic_partition_overwrite(df, dict(snapshot_properties), branch)
            return
        self._check_mode(TableProperties.DELETE_MODE)
        self._begun(branch, snapshot_properties).dynamic_partition_overwrite(df)

    def upsert(
        self,
        df: pa.Table,
        join_cols: list[str] | None = None,
        when_matched_update_all: bool = True,
        when_not_matched_insert_all: bool = True,
        case_sensitive: bool = True,
        branch: str | None = MAIN_BRANCH,
        snapshot_properties: Mapping[str, str] = _NO_PROPERTIES,
    ) -> UpsertResult:
        if not self._is_v3:
            return super().upsert(
                df,
                join_cols,
                when_matched_update_all,
                when_not_matched_insert_all,
                case_sensitive,
                branch,
                dict(snapshot_properties),
            )
        if not case_sensitive:
            raise UnsupportedError(
                "case_sensitive=False: upserts of format version 3 compare names with case"
            )
        self._check_mode(TableProperties.DELETE_MODE)
        done = self._begun(branch, snapshot_properties).upsert(
            arrow_rows(df, "df", streamed=False),
            join_cols,
            when_matched_update_all=when_matched_update_all,
            when_not_matched_insert_all=when_not_matched_insert_all,
        )
        return UpsertResult(rows_updated=done.rows_updated, rows_inserted=done.rows_inserted)

    def add_files(
        self,
        file_paths: list[str],
        snapshot_properties: Mapping[str, str] = _NO_PROPERTIES,
        check_duplicate_files: bool = True,
        branch: str | None = MAIN_BRANCH,
    ) -> None:
        if not self._is_v3:
            super().add_files(file_paths, dict(snapshot_properties), check_duplicate_files, branch)
            return
        verbs = self._begun(branch, snapshot_properties)
        verbs._run(AddFiles(file_paths, check_duplicate_files), AppendResult)
        metadata, staged, attempt = self.table_metadata, self._staged, verbs._attempt
        if (
            metadata.name_mapping() is None
        ):  # the rows of this transaction do not depend on it: later verbs may follow
            assert staged is not None
            assert isinstance(attempt, IcebergAttempt)
            mapping = metadata.schema().name_mapping.model_dump_json()
            self.set_properties({TableProperties.DEFAULT_NAME_MAPPING: mapping})
            staged.before, self._n_before = self._updates, len(self._updates)
            attempt.table.metadata = with_updates(attempt.metadata, self._updates[-1:])

    def _check_mode(self, name: str) -> None:
        """Refuses a table whose owner asks for copy-on-write: the verbs here write deletion vectors.

        Raises:
            UnsupportedError: the property says so. PyIceberg's default does not count.
        """
        mode = self.table_metadata.properties.get(name, TableProperties.DELETE_MODE_MERGE_ON_READ)
        if mode.lower() != TableProperties.DELETE_MODE_MERGE_ON_READ:
            raise UnsupportedError(
                f"{'.'.join(self._table.name())}: {name}={mode}: expected merge-on-read or no such property, because "
                "deletes are written as deletion vectors; rewrite_data_files removes the rows from the data files"
            )

    def commit_transaction(self) -> Table:
        if self._verbs is None:
            return super().commit_transaction()
        verbs, staged, table = self._verbs, self._staged, self._rows_table
        assert staged is not None
        assert table is not None
        staged.requirements = self._requirements
        staged.after = self._updates[self._n_before :]
        self._verbs = self._branch = self._staged = self._rows_table = None
        changed = self._updates
        self._updates, self._requirements = (), ()
        verbs.__exit__(None, None, None)
        if verbs.committed is None and changed:  # no rows, but metadata
            self._updates, self._requirements = changed, staged.requirements
            return super().commit_transaction()
        if verbs.committed is not None:
            self._table.metadata, self._table.metadata_location = table.metadata, table.metadata_location
        return self._table

    def __exit__(
        self, exctype: type[BaseException] | None, excinst: BaseException | None, exctb: TracebackType | None
    ) -> None:
        if exctype is not None and self._verbs is not None:
            verbs, self._verbs = self._verbs, None
            verbs.__exit__(exctype, excinst, exctb)
            return
        super().__exit__(exctype, excinst, exctb)


class _V3CreateTransaction(_V3Transaction, CreateTableTransaction):
    """A transaction that creates a table of version 3."""


def _expression(row_filter: str | BooleanExpression) -> BooleanExpression:
    """A filter as PyIceberg reads it; a text that it does not read, in the grammar of row filters.

    Raises:
        InvalidInputError: neither grammar has the text.
    """
    if not isinstance(row_filter, str):
        return row_filter
    try:
        return parse(row_filter)
    except ParseException:
        return parse_filter(row_filter)


WRITES = (
    Patch(Table, "transaction", _transaction, ("self",)),
    Patch(CreateTableTransaction, "__init__", _init_create, ("self", "table")),
    Patch(Table, "append", _append_rows, ("self", "df", "snapshot_properties", "branch")),
    Patch(Table, "_do_commit", _commit, ("self", "updates", "requirements")),
)
