"""The results of verbs: one class for each verb, for all formats and workers."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from puffin_fast._display.html import HtmlFields, Note
from puffin_fast._text import counted
from puffin_fast.verbs.counts import Counts

if TYPE_CHECKING:
    from puffin_fast.rows.scan.explain import Explanation

Result = TypeVar("Result")


@dataclass(frozen=True)
class Commit(HtmlFields):
    """What a verb committed.

    Attributes:
        id: the snapshot id of Iceberg, or the version of Delta; None if there was nothing to change, and nothing was
            committed, and in a transaction before its end.
        attempts: number of attempts: 1 without a conflict, 0 without a commit.
        repeated: True if the job id was in the table's history already, and nothing was done. `id` is then the earlier
            commit, if the format records it.
        files: number of files that the commit added.
        n_bytes: their size.
        seconds: wall time of the verb.
    """

    id: int | None = None
    attempts: int = 0
    repeated: bool = False
    files: int = 0
    n_bytes: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class AppendResult(HtmlFields):
    """The result of an append.

    Attributes:
        commit: the commit.
        rows_appended: number of rows.
        data_files_written: number of data files with the rows.
    """

    commit: Commit = Commit()
    rows_appended: int = 0
    data_files_written: int = 0


@dataclass(frozen=True)
class DeleteResult(HtmlFields):
    """The result of a delete.

    Attributes:
        commit: the commit.
        rows_deleted: number of newly deleted rows. Where a data file was not read (positions that the caller gives, and
            data files that are removed as a whole), rows that equality deletes had already deleted are counted too.
        data_files: number of data files with newly deleted rows, removed ones included.
        data_files_dropped: number of data files removed from the table because all their rows are deleted.
        vectors_written: number of deletion vectors written.
        vectors_merged: number of data files whose new deletes include earlier ones.
        position_delete_files_written: number of position-delete files written, in Iceberg tables of format version 2.
        rows_dangling: number of given rows that were skipped because their path is not a data file of the table.
        warning: on Spark, whether rows were deleted that other engines do not delete; else None.
        explanation: what was read, and what each step left out; None if no data file was searched, or if Spark
            evaluates the filter, or joins the keys with the table.
    """

    commit: Commit = Commit()
    rows_deleted: int = 0
    data_files: int = 0
    data_files_dropped: int = 0
    vectors_written: int = 0
    vectors_merged: int = 0
    position_delete_files_written: int = 0
    rows_dangling: int = 0
    warning: str | None = None
    explanation: Explanation | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class UpdateResult(HtmlFields):
    """The result of an update.

    Attributes:
        commit: the commit.
        rows_updated: number of rows that matched.
        data_files: number of data files with updated rows, removed ones included.
        data_files_written: number of data files with the new rows.
        vectors_written: number of deletion vectors written.
        position_delete_files_written: number of position-delete files written, in Iceberg tables of format version 2.
        warning: on Spark, whether rows were updated that other engines do not update; else None.
        explanation: what was read, and what each step left out; None if no data file was searched, or if Spark
            evaluates the filter or a value.
    """

    commit: Commit = Commit()
    rows_updated: int = 0
    data_files: int = 0
    data_files_written: int = 0
    vectors_written: int = 0
    position_delete_files_written: int = 0
    warning: str | None = None
    explanation: Explanation | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class UpsertResult(HtmlFields):
    """The result of an upsert.

    Attributes:
        commit: the commit.
        rows_updated: number of given rows that replaced one or several rows.
        rows_inserted: number of given rows whose key was new.
        rows_unchanged: number of given rows that were not written although the table has their key: it has equal
            rows, or `when_matched_update_all` is off.
        rows_deleted: number of rows of the table that were replaced or deleted; several may have had one key.
        keys_deleted: number of given rows that deleted their key, by `delete_column`.
        rows_superseded: number of given rows that were not the last of their key, by `order_column`.
        data_files_written: number of data files with the given rows.
        vectors_written: number of deletion vectors written.
        position_delete_files_written: number of position-delete files written, in Iceberg tables of format version 2.
        explanation: what was read, and what each step left out; None if no data file was searched, or if Spark joins
            the given rows with the table.
    """

    commit: Commit = Commit()
    rows_updated: int = 0
    rows_inserted: int = 0
    rows_unchanged: int = 0
    rows_deleted: int = 0
    keys_deleted: int = 0
    rows_superseded: int = 0
    data_files_written: int = 0
    vectors_written: int = 0
    position_delete_files_written: int = 0
    explanation: Explanation | None = field(default=None, repr=False, compare=False)

    def _shown(self) -> dict[str, Any]:
        shown = super()._shown()
        if self.rows_deleted:
            keys = f"replaced, or deleted by {counted(self.keys_deleted, 'key')}"
            shown["rows_deleted"] = Note(
                f"{self.rows_deleted:,} ({keys if self.keys_deleted else 'replaced'})"
            )
        return shown


@dataclass(frozen=True)
class OverwriteResult(HtmlFields):
    """The result of an overwrite.

    Attributes:
        commit: the commit.
        rows_deleted: number of rows that were deleted; as for `DeleteResult`.
        rows_appended: number of given rows.
        data_files: number of data files with deleted rows, removed ones included.
        data_files_dropped: number of data files removed from the table because all their rows are deleted.
        data_files_written: number of data files with the given rows.
        vectors_written: number of deletion vectors written.
        position_delete_files_written: number of position-delete files written, in Iceberg tables of format version 2.
        explanation: what was read, and what each step left out; None if no data file was searched.
    """

    commit: Commit = Commit()
    rows_deleted: int = 0
    rows_appended: int = 0
    data_files: int = 0
    data_files_dropped: int = 0
    data_files_written: int = 0
    vectors_written: int = 0
    position_delete_files_written: int = 0
    explanation: Explanation | None = field(default=None, repr=False, compare=False)


def result_of(kind: type[Result], counts: Counts, commit: Commit, **others: Any) -> Result:
    """Makes a result of the counts that it has as fields, and of its commit.

    Args:
        kind: the class of the result.
        counts: the counts of the action.
        commit: the commit, without the counts of its files.
        others: values of other fields.
    """
    names = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
    values = {name: getattr(counts, name) for name in names if hasattr(counts, name)}
    commit = dataclasses.replace(commit, files=counts.files, n_bytes=counts.n_bytes)
    return kind(**{**values, **others, "commit": commit})
