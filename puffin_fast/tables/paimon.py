"""Tables of Paimon."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self, TypeVar

from puffin_fast import paimon
from puffin_fast.errors import UnsupportedError
from puffin_fast.tables.table import Table
from puffin_fast.verbs.attempt import Action
from puffin_fast.verbs.delete import Delete, DeletePositions
from puffin_fast.verbs.options import Options

Result = TypeVar("Result")

_WRITERS = "pypaimon's write builder writes rows"


class PaimonTable(Table):
    """A table of Paimon, in which rows are deleted.

    Attributes:
        table: its path, or pypaimon's table.
    """

    format = "Paimon"
    lacks: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("append", "dynamic_partition_overwrite", "overwrite", "update", "upsert"), _WRITERS),
        "branch": "open the branch by pypaimon",
        "delete_keys": "delete takes a filter",
        "job_id": "snapshots do not record it",
        "on_conflict": "a conflict is an error",
        "scan": "pypaimon's read builder reads rows, with all deletes applied",
        "snapshot_properties": "snapshots do not have them",
        "maintain": "Paimon maintains its tables",
        "orphan_files": "remove_orphan_files of Paimon's procedures does",
        "remove_orphan_files": "remove_orphan_files of Paimon's procedures does",
        "rewrite_data_files": "Paimon's own compaction rewrites data files",
        "transaction": "each delete is a commit",
        "workers": "pypaimon reads the data files",
    }

    def __init__(self, table: Any) -> None:
        self.table = table
        self.name = str(getattr(table, "table_path", table))

    @classmethod
    def of(cls, table: Any, name: str | tuple[str, ...] | None, filesystem: Any) -> Self:
        return cls(table)

    @classmethod
    def at(cls, path: str, filesystem: Any) -> Self:
        return cls(path)

    def run(self, action: Action, options: Options, kind: type[Result]) -> Result:
        self.check(options)
        found: Any
        if isinstance(action, Delete):
            found = paimon.delete(self.table, action.row_filter, dry_run=options.dry_run)
        elif isinstance(action, DeletePositions):
            found = paimon.delete_positions(self.table, action.wanted, dry_run=options.dry_run)
        else:
            raise UnsupportedError(f"{self.name}: tables of Paimon have no {options.verb}")
        return found  # type: ignore[no-any-return]  # a `DeleteResult`, as that of the verb
