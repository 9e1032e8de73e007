"""Tables of Paimon."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import pyarrow as pa

from puffin_fast import paimon
from puffin_fast.paimon.checks import findings_of
from puffin_fast.rows.findings import Findings, Level
from puffin_fast.tables.table import Table
from puffin_fast.verbs.attempt import Action
from puffin_fast.verbs.delete import Delete, DeletePositions
from puffin_fast.verbs.listed_deletes import vectors_table
from puffin_fast.verbs.options import Options

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from pyspark.sql import SparkSession

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
        "as_of": "snapshot_id= selects a snapshot",
        "branch": "open the branch by pypaimon",
        "file_paths": "the index manifest lists all vectors",
        "report": "manifests do not say what deletes cost",
        "tag": "snapshot_id= selects a snapshot",
        "changes": "Paimon's changelog or incremental read has them",
        "delete_keys": "delete takes a filter",
        "job_id": "snapshots do not record it",
        "on_conflict": "a conflict is an error",
        "scan": "pypaimon, DuckDB or Spark read its rows; pf.paimon.accelerate() makes pypaimon's scans faster",
        "snapshot_properties": "snapshots do not have them",
        "maintain": "Paimon maintains its tables",
        "orphan_files": "remove_orphan_files of Paimon's procedures does",
        "remove_orphan_files": "remove_orphan_files of Paimon's procedures does",
        "rewrite_data_files": "Paimon's own compaction rewrites data files",
        "transaction": "each delete is a commit",
        "case_sensitive": "pypaimon compares names with case",
        "threads": "pypaimon reads the data files",
        "workers": "pypaimon reads the data files",
    }

    def __init__(self, table: Any, filesystem: Any = None) -> None:
        self.table, self._filesystem = table, filesystem
        self.name = str(getattr(table, "table_path", table))

    @classmethod
    def of(cls, table: Any, name: str | tuple[str, ...] | None, filesystem: Any) -> Self:
        return cls(table, filesystem)

    @classmethod
    def at(cls, path: str, filesystem: Any) -> Self:
        return cls(path, filesystem)

    def listed_deletes(self, only: set[str] | None, **selected: Any) -> pa.Table:
        found = paimon.vectors(self.table, snapshot_id=selected["snapshot_id"], filesystem=self._filesystem)
        return vectors_table(
            (row["file_name"], None, row["index_file"], None, len(row["blob"]), row["cardinality"])
            for row in found.to_pylist()
        )

    def findings(
        self,
        level: Level,
        threads: int | None,
        workers: Executor | SparkSession | None,
        **selected: Any,
    ) -> Findings:
        return findings_of(self.table, selected["snapshot_id"], level, threads, self._filesystem)

    def run(self, action: Action, options: Options, kind: type[Result]) -> Result:
        self.check(options)
        found: Any
        if isinstance(action, Delete):
            if not action.case_sensitive:
                self.need("case_sensitive")
            found = paimon.delete(self.table, action.row_filter, dry_run=options.dry_run)
        elif isinstance(action, DeletePositions):
            found = paimon.delete_positions(self.table, action.wanted, dry_run=options.dry_run)
        else:
            raise self.refusal(options.verb)
        return found  # type: ignore[no-any-return]  # a `DeleteResult`, as that of the verb
