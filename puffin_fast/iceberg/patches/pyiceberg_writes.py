"""PyIceberg's own verbs on tables of format version 3, which it cannot write.

They are `append`, `delete`, `overwrite`, `upsert`, `dynamic_partition_overwrite`, and transactions of these.
PyIceberg's `Table` runs each verb in a transaction that `Table.transaction` makes. The one here stages the verbs in a
transaction of this package, so that they make one snapshot: deletes are deletion vectors, and rows keep their row ids.
Arguments and results are those of PyIceberg. Transactions that change metadata only are PyIceberg's own, committed
within `v3_metadata`; all on tables of other versions are PyIceberg's own. Catalogs that write metadata in this process
create tables of version 3 (property ``format-version``).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.expressions.parser import parse
from pyiceberg.table import Table, TableProperties, Transaction, UpsertResult
from pyiceberg.table.refs import MAIN_BRANCH

from puffin_fast._run.patches import Patch
from puffin_fast.columns.arrow_rows import arrow_rows
from puffin_fast.errors import UnsupportedError
from puffin_fast.iceberg.commit.request import Request
from puffin_fast.iceberg.compat.table_metadata import v3_metadata, write_new_metadata
from puffin_fast.iceberg.dml.tables import append
from puffin_fast.iceberg.dml.transaction import Transaction as VerbTransaction
from puffin_fast.iceberg.dml.transaction import transaction

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.table.update import TableRequirement, TableUpdate

_NO_PROPERTIES: Mapping[str, str] = {}

_make_transaction, _append, _do_commit = Table.transaction, Table.append, Table._do_commit


def _transaction(self: Table) -> Transaction:
    """Replaces `Table.transaction`."""
    return _V3Transaction(self) if self.metadata.format_version == 3 else _make_transaction(self)


def _append_rows(
    self: Table,
    df: pa.Table | pa.RecordBatchReader,
    snapshot_properties: Mapping[str, str] = _NO_PROPERTIES,
    branch: str | None = MAIN_BRANCH,
) -> None:
    """Replaces `Table.append`, so that a reader is streamed: a transaction would hold its rows in memory."""
    if self.metadata.format_version == 3:
        append(self, df, branch=_branch(branch), snapshot_properties=dict(snapshot_properties))
    else:
        _append(self, df, dict(snapshot_properties), branch)


def _commit(
    self: Table, updates: tuple[TableUpdate, ...], requirements: tuple[TableRequirement, ...]
) -> None:
    """Replaces `Table._do_commit`, so that PyIceberg's changes of metadata are written on tables of version 3."""
    if self.metadata.format_version == 3:
        with v3_metadata(self.catalog):
            _do_commit(self, updates, requirements)
    else:
        _do_commit(self, updates, requirements)


def _branch(branch: str | None) -> str:
    if branch is None:
        raise UnsupportedError("branch=None: expected the name of a branch, for a table of format version 3")
    return branch


class _V3Transaction(Transaction):
    """A transaction of PyIceberg whose verbs are those of this package; see above."""

    def __init__(self, table: Table, autocommit: bool = False) -> None:
        super().__init__(table, autocommit)
        self._verbs: VerbTransaction | None = None
        self._branch: str | None = None
        self._properties: dict[str, str] = {}

    def _begun(self, branch: str | None, snapshot_properties: Mapping[str, str]) -> VerbTransaction:
        """The transaction of this package; all verbs make one snapshot, which has the properties of all of them."""
        name = _branch(branch)
        if self._updates:
            self._refuse()
        Request(snapshot_properties=dict(snapshot_properties))  # checks the names
        if self._branch not in (None, name):
            raise UnsupportedError(
                f"transaction: expected verbs on one branch, found {self._branch} and {name}"
            )
        self._properties.update(snapshot_properties)
        if self._verbs is None:
            self._verbs = transaction(self._table, branch=name, snapshot_properties=self._properties)
            self._verbs.__enter__()
            self._branch = name
        return self._verbs

    def _refuse(self) -> None:
        raise UnsupportedError(
            f"{'.'.join(self._table.name())}: a transaction on a table of format version 3 changes either rows or "
            "metadata: expected two transactions"
        )

    def _stage(self, updates: Any, requirements: Any = ()) -> Transaction:
        if self._verbs is not None:
            self._refuse()
        return super()._stage(updates, requirements)

    def append(
        self,
        df: pa.Table | pa.RecordBatchReader,
        snapshot_properties: Mapping[str, str] = _NO_PROPERTIES,
        branch: str | None = MAIN_BRANCH,
    ) -> None:
        self._begun(branch, snapshot_properties).append(df)

    def delete(
        self,
        delete_filter: str | BooleanExpression,
        snapshot_properties: Mapping[str, str] = _NO_PROPERTIES,
        case_sensitive: bool = True,
        branch: str | None = MAIN_BRANCH,
        _isolation_operation: Any = None,
    ) -> None:
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

    def _check_mode(self, name: str) -> None:
        """Refuses a table whose owner asks for copy-on-write: the verbs here write deletion vectors.

        Raises:
            UnsupportedError: the property says so. PyIceberg's default does not count.
        """
        mode = self._table.metadata.properties.get(name, TableProperties.DELETE_MODE_MERGE_ON_READ)
        if mode.lower() != TableProperties.DELETE_MODE_MERGE_ON_READ:
            raise UnsupportedError(
                f"{'.'.join(self._table.name())}: {name}={mode}: expected merge-on-read or no such property, because "
                "deletes are written as deletion vectors; rewrite_data_files removes the rows from the data files"
            )

    def commit_transaction(self) -> Table:
        if self._verbs is None:
            return super().commit_transaction()
        verbs, self._verbs = self._verbs, None
        verbs.__exit__(None, None, None)
        return self._table

    def __exit__(
        self, exctype: type[BaseException] | None, excinst: BaseException | None, exctb: TracebackType | None
    ) -> None:
        if exctype is not None and self._verbs is not None:
            verbs, self._verbs = self._verbs, None
            verbs.__exit__(exctype, excinst, exctb)
            return
        super().__exit__(exctype, excinst, exctb)


def _expression(row_filter: str | BooleanExpression) -> BooleanExpression:
    """A filter as PyIceberg reads it."""
    return parse(row_filter) if isinstance(row_filter, str) else row_filter


WRITES = (
    Patch(Table, "transaction", _transaction, ("self",)),
    Patch(Table, "append", _append_rows, ("self", "df", "snapshot_properties", "branch")),
    Patch(Table, "_do_commit", _commit, ("self", "updates", "requirements")),
    Patch(
        MetastoreCatalog,
        "_write_metadata",
        staticmethod(write_new_metadata),
        ("metadata", "io", "metadata_path"),
    ),
)
